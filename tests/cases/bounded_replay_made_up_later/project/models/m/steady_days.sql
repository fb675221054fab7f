-- @incremental: day
SELECT CAST(ts AS DATE) AS day, count(*) AS n, sum(v) AS v FROM own GROUP BY CAST(ts AS DATE)
