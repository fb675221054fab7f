-- @kind: append
-- @refresh: incremental
-- @on_schema_change: ignore
SELECT id, a FROM raw.t
