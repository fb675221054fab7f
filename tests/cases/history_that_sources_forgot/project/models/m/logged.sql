-- @incremental: seq
-- @cursor_type: integer
-- @incremental_strategy: append
SELECT id, seq, v FROM flat
