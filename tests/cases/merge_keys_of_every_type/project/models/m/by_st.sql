-- @kind: merge
-- @refresh: incremental
-- @unique_key: k
SELECT st AS k, max(v) AS v FROM raw.typed WHERE st IS NOT NULL GROUP BY st
