-- @refresh: incremental
SELECT c.id, c.name, SUM(o.amt) AS s FROM raw.c LEFT JOIN raw.o ON o.cid = c.id GROUP BY c.id, c.name
