-- @incremental: id
-- @cursor_type: integer
SELECT id, v FROM raw.a
