-- @incremental: seq
-- @incremental_initial: 2
-- @incremental_strategy: append
SELECT id, seq, v FROM raw.events
