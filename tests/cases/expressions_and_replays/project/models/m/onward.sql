-- @kind: incremental
-- @cursor: id
-- @cursor_type: integer
SELECT id, v FROM seen
