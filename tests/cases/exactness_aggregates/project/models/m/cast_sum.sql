-- @refresh: incremental
SELECT cid, CAST(SUM(amt) AS BIGINT) AS s, COALESCE(SUM(amt), 0) AS z FROM raw.o GROUP BY cid
