-- @kind: merge
-- @refresh: incremental
-- @unique_key: id
-- @on_source_delete: keep
SELECT id, name FROM raw.c WHERE region = 'SE'
