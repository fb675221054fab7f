-- @kind: merge
-- @refresh: incremental
-- @unique_key: id
SELECT id, n, x, d FROM raw.t
