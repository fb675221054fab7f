-- @kind: view
SELECT id FROM raw.orders
