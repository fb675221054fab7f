-- @refresh: incremental
SELECT cid, COUNT(*) AS n FROM raw.o GROUP BY cid
