-- @kind: append
-- @refresh: incremental
SELECT id FROM raw.o
