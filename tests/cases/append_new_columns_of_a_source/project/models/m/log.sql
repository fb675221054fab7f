-- @kind: append
-- @refresh: incremental
SELECT id, name FROM raw.c
