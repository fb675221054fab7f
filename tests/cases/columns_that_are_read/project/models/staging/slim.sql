-- @kind: view
SELECT id, customer FROM staging.orders
