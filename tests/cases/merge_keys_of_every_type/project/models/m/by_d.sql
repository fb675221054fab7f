-- @kind: merge
-- @refresh: incremental
-- @unique_key: k
SELECT d AS k, max(v) AS v FROM raw.typed WHERE d IS NOT NULL GROUP BY d
