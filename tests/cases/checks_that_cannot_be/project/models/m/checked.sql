-- @kind: table
-- @constraint: not_null(id)
-- @audit: golden(golden/small.csv)
SELECT * FROM m.base
