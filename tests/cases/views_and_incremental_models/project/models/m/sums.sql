-- @refresh: incremental
SELECT cid, SUM(amt) AS s FROM clean GROUP BY cid
