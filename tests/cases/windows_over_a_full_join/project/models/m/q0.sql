-- @kind: append
-- @refresh: incremental
SELECT q1.g AS x0, q1.k2 AS x1, count(*) OVER (PARTITION BY q1.k, q1.g) AS x2
FROM raw.t2 AS q1
FULL JOIN (SELECT sum(q2.k) AS x0 FROM raw.t1 AS q2 GROUP BY q2.x) AS q3 ON q1.k = q3.x0
CROSS JOIN raw.t2 AS q4
