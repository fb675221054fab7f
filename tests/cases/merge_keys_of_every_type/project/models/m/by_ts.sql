-- @kind: merge
-- @refresh: incremental
-- @unique_key: k
SELECT ts AS k, max(v) AS v FROM raw.typed WHERE ts IS NOT NULL GROUP BY ts
