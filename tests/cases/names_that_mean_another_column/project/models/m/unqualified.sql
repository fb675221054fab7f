-- @kind: table
-- @refresh: incremental
SELECT q.k AS k, a.y AS y
FROM raw.t AS q
LEFT JOIN raw.s AS a ON n = a.y
JOIN raw.t AS b ON q.k = b.k
