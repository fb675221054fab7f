-- @refresh: incremental
SELECT o.id, COUNT(*) OVER (PARTITION BY c.region) AS n FROM raw.o JOIN raw.c ON o.cid = c.id
