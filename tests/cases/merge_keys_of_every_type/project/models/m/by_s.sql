-- @kind: merge
-- @refresh: incremental
-- @unique_key: k
SELECT s AS k, max(v) AS v FROM raw.typed WHERE s IS NOT NULL GROUP BY s
