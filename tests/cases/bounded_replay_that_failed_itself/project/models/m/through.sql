-- @incremental: ts
-- @replay_on_change: bounded-2d
-- @constraint: compare(v, <, 1000)
SELECT id, ts, v FROM seen
