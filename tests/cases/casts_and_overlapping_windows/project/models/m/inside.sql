-- @refresh: incremental
SELECT k, sum(CASE WHEN n > (SELECT 3 * max(b.k) FROM raw.b AS b) THEN 1 ELSE 0 END) AS above FROM raw.f GROUP BY k
