-- @kind: merge
-- @refresh: incremental
-- @unique_key: k
SELECT i AS k, max(v) AS v FROM raw.typed WHERE i IS NOT NULL GROUP BY i
