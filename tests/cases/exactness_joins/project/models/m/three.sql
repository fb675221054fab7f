-- @refresh: incremental
SELECT o.id, c.name, p.id AS other FROM raw.o JOIN raw.c ON o.cid = c.id JOIN raw.o AS p ON p.cid = c.id
