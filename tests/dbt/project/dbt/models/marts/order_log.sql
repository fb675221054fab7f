{{ config(materialized='incremental', incremental_strategy='append') }}
select id, cents from {{ ref('stg_orders') }}
{% if is_incremental() %} where id > (select max(id) from {{ this }}) {% endif %}
