-- @refresh: incremental
SELECT o.id, c.id AS cid, c.name FROM raw.o FULL JOIN raw.c ON o.cid = c.id
