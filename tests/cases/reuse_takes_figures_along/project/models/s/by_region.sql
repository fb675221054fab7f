-- @refresh: incremental
SELECT d.region, count(*) AS n, sum(o.amount) AS amount
FROM raw.orders AS o JOIN raw.regions AS d ON o.k = d.k
GROUP BY d.region
