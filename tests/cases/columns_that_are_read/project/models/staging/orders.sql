-- @refresh: incremental
SELECT id, customer, price FROM raw.orders
