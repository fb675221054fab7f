-- @refresh: incremental
SELECT id FROM raw.o UNION ALL SELECT cid FROM raw.o
