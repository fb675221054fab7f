-- @kind: append
SELECT id FROM orders_csv
