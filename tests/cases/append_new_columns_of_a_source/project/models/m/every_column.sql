-- @kind: append
-- @refresh: incremental
SELECT * FROM raw.c
