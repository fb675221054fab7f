-- @refresh: incremental
-- @constraint: not_null(id)
SELECT id, pid, amt FROM raw.orders WHERE amt > 0
