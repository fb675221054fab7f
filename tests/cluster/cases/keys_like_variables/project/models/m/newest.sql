-- @refresh: incremental
-- @kind: merge
-- @unique_key: k
SELECT k, max(n) AS n FROM raw.keys GROUP BY k
