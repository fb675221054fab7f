{{
    config(
        materialized='incremental',
        incremental_strategy='merge',
        unique_key='order_id',
        partition_by=['status'],
    )
}}

select order_id, order_date, status, amount
from {{ ref('orders') }}
{% if is_incremental() %}
where order_date >= (select coalesce(max(order_date), date '1900-01-01') from {{ this }})
{% endif %}
