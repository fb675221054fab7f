-- @refresh: incremental
SELECT cid, SUM(amt) AS s, COUNT(*) AS n, COUNT(DISTINCT id) AS d FROM raw.o GROUP BY cid
