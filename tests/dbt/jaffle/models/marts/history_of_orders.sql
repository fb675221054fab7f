select order_id, status, dbt_valid_to is null as is_open from {{ ref('orders_history') }}
