-- @kind: incremental
-- @cursor: id
-- @cursor_type: integer
-- @replay_on_change: full
SELECT id, v FROM flat
