-- @kind: view
SELECT * FROM raw.orders
