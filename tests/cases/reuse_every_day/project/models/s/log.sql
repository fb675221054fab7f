-- @kind: append
SELECT id, amt FROM raw.orders
