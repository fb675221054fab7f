-- @kind: custom
-- @materialization: first_rows
-- @config: {most: 1}
-- @constraint: compare(id, >, 0)
SELECT id, name FROM others
