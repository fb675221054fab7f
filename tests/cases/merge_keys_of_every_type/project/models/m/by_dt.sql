-- @kind: merge
-- @refresh: incremental
-- @unique_key: k
SELECT dt AS k, max(v) AS v FROM raw.typed WHERE dt IS NOT NULL GROUP BY dt
