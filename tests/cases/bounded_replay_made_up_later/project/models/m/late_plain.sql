-- @incremental: ts
-- @constraint: compare(v, <, 1000)
SELECT id, ts, v FROM own
