-- @refresh: incremental
-- @constraint: not_null(amount)
-- @post_hook: INSERT INTO raw.log VALUES ('orders')
SELECT id, person, amount, day FROM raw.orders
