-- @incremental: ts
-- @constraint: compare(v, <, 1000)
-- @replay_on_change: bounded-1d
SELECT id, ts, v FROM own
