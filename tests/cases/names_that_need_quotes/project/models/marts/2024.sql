-- @kind: view
SELECT * FROM marts.table
