-- @refresh: incremental
SELECT cid FROM raw.o GROUP BY cid HAVING COUNT(*) > 1
