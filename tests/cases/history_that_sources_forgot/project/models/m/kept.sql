-- @incremental: seq
-- @cursor_type: integer
SELECT id, seq, v FROM seen
