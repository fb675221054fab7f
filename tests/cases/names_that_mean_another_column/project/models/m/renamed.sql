-- @kind: table
-- @refresh: incremental
SELECT f.k AS k, a.w AS w
FROM raw.t AS f
LEFT JOIN (SELECT y, y + 1 FROM raw.s) AS a (v, w) ON f.k = a.v
