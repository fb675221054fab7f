-- @kind: view
SELECT n FROM total
