-- @kind: append
-- @refresh: incremental
-- @on_schema_change: sync_all_columns
SELECT id, a FROM raw.t
