-- @kind: append
-- @refresh: incremental
-- @on_schema_change: fail
SELECT id, a FROM raw.t
