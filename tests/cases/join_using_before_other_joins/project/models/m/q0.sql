-- @kind: tracked
-- @refresh: incremental
-- @group_key: x0
SELECT q3.k2 AS x0
FROM raw.t3 AS q1
LEFT JOIN raw.t3 AS q2 USING (g, k2)
JOIN raw.t3 AS q3 ON q1.k2 = q3.k2
CROSS JOIN raw.t3 AS q4
