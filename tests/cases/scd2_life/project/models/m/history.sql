-- @kind: scd2
-- @refresh: incremental
-- @unique_key: id
SELECT id, name FROM raw.c WHERE region = 'SE'
