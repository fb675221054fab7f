-- @refresh: incremental
SELECT id, cid, ROW_NUMBER() OVER (PARTITION BY cid ORDER BY id) AS n, SUM(amt) OVER (PARTITION BY cid ORDER BY id) AS s FROM raw.o
