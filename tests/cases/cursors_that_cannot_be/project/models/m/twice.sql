-- @incremental: seq
-- @cursor_type: integer
-- @unique_key: id
SELECT * FROM raw.events
