-- @kind: incremental
-- @cursor: id
-- @cursor_type: integer
-- @replay_on_change: bounded-2
SELECT id, v FROM seen
