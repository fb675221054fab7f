-- @kind: append
SELECT id, amount FROM orders
