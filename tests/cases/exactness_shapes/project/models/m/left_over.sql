-- @refresh: incremental
SELECT cid FROM raw.o EXCEPT SELECT id FROM raw.c
