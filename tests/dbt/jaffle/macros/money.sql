{% macro cents_to_dollars(column_name, scale=2) %}
    cast({{ column_name }} / 100 as decimal(16, {{ scale }}))
{% endmacro %}

{% macro initial_of(column_name) -%}
    {{ return(adapter.dispatch('initial_of')(column_name)) }}
{%- endmacro %}

{% macro default__initial_of(column_name) -%}
    upper(left({{ column_name }}, 1))
{%- endmacro %}
