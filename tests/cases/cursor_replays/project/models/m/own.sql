-- @incremental: seq
-- @cursor_type: integer
-- @replay_on_change: bounded-2
SELECT id, seq, v FROM base
