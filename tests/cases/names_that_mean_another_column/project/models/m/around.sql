-- @kind: table
-- @refresh: incremental
SELECT a.k AS k
FROM raw.t AS a
WHERE EXISTS (SELECT 1 FROM raw.s AS a WHERE a.y = n)
