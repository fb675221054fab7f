select customer_id, count(*) as large_orders from {{ ref('large_orders') }} group by customer_id
