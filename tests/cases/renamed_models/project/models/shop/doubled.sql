-- @kind: view
SELECT id, amount * 2 AS twice FROM orders
