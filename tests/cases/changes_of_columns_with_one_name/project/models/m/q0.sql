-- @kind: table
-- @refresh: incremental
SELECT t1.k, t1.g
FROM raw.t1 AS t1
WHERE (t1.g, t1.g2) NOT IN (SELECT q.g, q.g FROM raw.t0 AS q WHERE q.k > 0)
  AND (t1.k, t1.k) IN (SELECT a.k, b.k FROM raw.t0 AS a JOIN raw.t0 AS b ON a.k = b.k)
