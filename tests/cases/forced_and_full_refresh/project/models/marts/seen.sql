-- @kind: view
SELECT id FROM staging.orders
