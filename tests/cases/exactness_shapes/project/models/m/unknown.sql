-- @refresh: incremental
SELECT o.id FROM raw.o WHERE NOT EXISTS (SELECT 1 FROM raw.c WHERE c.id = o.cid)
