{% snapshot orders_history %}

{{ config(unique_key='order_id', strategy='check', check_cols='all', hard_deletes='invalidate') }}

select order_id, status from {{ ref('stg_orders') }}

{% endsnapshot %}
