-- @refresh: incremental
WITH months AS (SELECT date_trunc('month', at) AS month, who FROM raw.events)
SELECT month, count(DISTINCT who) AS people FROM months GROUP BY 1
