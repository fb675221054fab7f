-- @incremental: day
-- @constraint: compare(v, <, 1000)
SELECT CAST(ts AS DATE) AS day, count(*) AS n, sum(v) AS v FROM own GROUP BY CAST(ts AS DATE)
