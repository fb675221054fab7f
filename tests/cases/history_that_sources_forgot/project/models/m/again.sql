-- @incremental: seq
-- @cursor_type: integer
-- @unique_key: id
-- @replay_on_change: full
SELECT id, seq, v FROM seen
