-- @kind: append
-- @lookups: raw.customers
-- @refresh: full
SELECT o.id, c.name
FROM raw.orders o
JOIN raw.customers c ON o.customer_id = c.id
