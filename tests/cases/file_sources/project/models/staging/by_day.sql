SELECT day, count(*) AS n, sum(v) AS v FROM raw.days GROUP BY day
