select o.id, o.customer, p.paid from {{ ref('stg_orders') }} o join {{ ref('stg_payments') }} p on p.id = o.id
