-- @kind: view
SELECT * FROM staging.orders
