-- @kind: view
SELECT id, amount FROM raw.orders WHERE amount > 0
