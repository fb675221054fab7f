-- @kind: append
-- @refresh: incremental
-- @on_schema_change: append_new_columns
SELECT id, a FROM raw.t
