-- @incremental: ts
-- @replay_on_change: bounded-1d
SELECT id, ts, v FROM own
