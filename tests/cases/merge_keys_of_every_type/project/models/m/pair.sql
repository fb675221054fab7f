-- @kind: merge
-- @refresh: incremental
-- @unique_key: [a, b]
SELECT a, b, v FROM raw.pairs
