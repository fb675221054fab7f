-- @kind: view
SELECT 1 AS id
