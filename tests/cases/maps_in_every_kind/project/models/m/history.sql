-- @kind: scd2
-- @refresh: incremental
-- @unique_key: id
SELECT id, m FROM raw.t
