-- @refresh: incremental
SELECT c.id, (SELECT SUM(amt) FROM raw.o WHERE o.cid = c.id) AS s, (SELECT COUNT(*) FROM raw.o WHERE o.cid = c.id) AS n
FROM raw.c AS c
