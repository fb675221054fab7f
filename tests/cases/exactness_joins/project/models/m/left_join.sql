-- @refresh: incremental
SELECT o.id, c.name FROM raw.o LEFT JOIN raw.c ON o.cid = c.id
