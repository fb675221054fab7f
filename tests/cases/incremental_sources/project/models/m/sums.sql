-- @refresh: incremental
SELECT cid, SUM(amt) AS s FROM raw.o GROUP BY cid
