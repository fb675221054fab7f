-- @refresh: incremental
SELECT cid, SUM(amt * 0.1D) AS s FROM raw.o GROUP BY cid
