-- @kind: view
SELECT id, amount FROM staging.orders WHERE amount > 10
