-- @incremental: seq
-- @incremental_initial: 0
-- @incremental_strategy: append
SELECT seq, v FROM raw.events
