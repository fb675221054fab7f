-- @refresh: incremental
SELECT cid, count(*) AS n FROM raw.o GROUP BY cid QUALIFY rank() OVER (PARTITION BY cid ORDER BY count(*)) = 1 AND count(*) > 1
