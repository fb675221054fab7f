-- @incremental: seq
-- @cursor_type: integer
-- @constraint: compare(v, <, 100)
SELECT id, seq, v FROM base
