-- @incremental: ts
-- @replay_on_change: bounded-2d
SELECT id, ts, v FROM raw.events
