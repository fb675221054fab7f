-- @kind: append
-- @contract: id integer
SELECT id FROM staging.orders
