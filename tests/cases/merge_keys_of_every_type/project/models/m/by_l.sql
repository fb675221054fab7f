-- @kind: merge
-- @refresh: incremental
-- @unique_key: k
SELECT l AS k, max(v) AS v FROM raw.typed WHERE l IS NOT NULL GROUP BY l
