-- @kind: scd2
-- @refresh: incremental
-- @unique_key: id
SELECT id, a FROM raw.t
