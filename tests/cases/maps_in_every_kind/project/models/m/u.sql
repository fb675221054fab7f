-- @kind: merge
-- @refresh: incremental
-- @unique_key: id
SELECT id, m FROM raw.t
