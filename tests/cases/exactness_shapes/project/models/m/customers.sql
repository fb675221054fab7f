-- @refresh: incremental
SELECT DISTINCT cid FROM raw.o
