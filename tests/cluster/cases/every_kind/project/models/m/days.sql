-- @incremental: day
SELECT day, id FROM orders
