-- @refresh: incremental
SELECT o.id FROM raw.o WHERE o.cid IN (SELECT id FROM raw.c WHERE region = 'SE')
