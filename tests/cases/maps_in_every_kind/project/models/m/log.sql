-- @kind: append
-- @refresh: incremental
SELECT id, m FROM raw.t
