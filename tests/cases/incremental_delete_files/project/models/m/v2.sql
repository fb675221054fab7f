-- @refresh: incremental
SELECT cid, COUNT(*) AS n FROM raw.two GROUP BY cid
