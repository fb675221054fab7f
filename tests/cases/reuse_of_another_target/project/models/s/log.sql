-- @kind: append
-- @refresh: incremental
SELECT id, amt FROM stg
