-- @kind: table
-- @refresh: incremental
SELECT k, sum(n) AS n
FROM raw.t
GROUP BY k
HAVING n > 2
