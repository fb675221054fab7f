-- @kind: append
-- @lookups: raw.customers
-- @refresh: incremental
SELECT o.id, o.amount, c.name
FROM raw.orders o
LEFT JOIN raw.customers c ON o.customer_id = c.id
