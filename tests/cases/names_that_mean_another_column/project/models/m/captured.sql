-- @kind: table
-- @refresh: incremental
SELECT f.k AS k, a.y AS y
FROM raw.t AS f
LEFT JOIN raw.s AS a ON f.k = a.y
