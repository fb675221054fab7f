-- @kind: table
-- @refresh: incremental
SELECT q.v, count(z.s) AS n, max(x.j) AS j
FROM (SELECT * FROM raw.t LATERAL VIEW explode(arr) AS v) AS q
JOIN raw.x AS x ON q.v = x.i
LEFT JOIN raw.z AS z USING (k)
GROUP BY q.v
