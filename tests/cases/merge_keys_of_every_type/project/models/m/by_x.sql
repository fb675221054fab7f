-- @kind: merge
-- @refresh: incremental
-- @unique_key: k
SELECT x AS k, max(v) AS v FROM raw.typed WHERE x IS NOT NULL GROUP BY x
