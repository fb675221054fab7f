-- @incremental: seq
-- @cursor_type: integer
-- @sorted_by: seq
-- @post_hook: INSERT INTO raw.runs SELECT count(*) FROM @@this
SELECT * FROM raw.events
