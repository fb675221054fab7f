-- @kind: merge
-- @refresh: incremental
-- @unique_key: k
SELECT f AS k, max(v) AS v FROM raw.typed WHERE f IS NOT NULL GROUP BY f
