-- @refresh: incremental
SELECT k, g, count(*) OVER (PARTITION BY k) AS by_k, sum(n) OVER w AS by_g
FROM raw.f
WINDOW w AS (PARTITION BY g)
