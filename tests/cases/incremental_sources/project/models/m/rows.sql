-- @refresh: incremental
SELECT id, amt FROM raw.o WHERE amt > 0
