-- @refresh: incremental
SELECT id, amt FROM raw.o UNION ALL SELECT id, 0 FROM raw.c
