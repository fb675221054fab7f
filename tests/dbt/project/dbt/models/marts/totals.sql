select customer, sum(cents) as total from {{ ref('large_orders') }} group by customer
