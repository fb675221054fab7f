-- @refresh: incremental
SELECT k, sum(n) AS n FROM raw.keys GROUP BY k
