-- @refresh: incremental
SELECT o.id, c.name FROM raw.o JOIN raw.c ON o.cid = c.id
