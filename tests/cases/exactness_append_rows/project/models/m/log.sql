-- @kind: append
-- @refresh: incremental
SELECT id, cid FROM raw.o
