-- @kind: append
-- @lookups: m.clean_customers
-- @refresh: incremental
SELECT o.id, o.amount, c.name
FROM raw.orders o
JOIN m.clean_customers c ON o.customer_id = c.id
