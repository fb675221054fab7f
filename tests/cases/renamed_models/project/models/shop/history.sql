-- @kind: scd2
-- @unique_key: id
SELECT id, amount FROM orders
