-- @refresh: incremental
SELECT cid, COUNT(*) AS n FROM raw.three GROUP BY cid
