-- @refresh: incremental
SELECT d.year, upper(d.name) AS name, count(*) AS n, sum(f.amount) AS amount, avg(f.qty) AS qty, max(f.amount) AS top
FROM raw.facts AS f JOIN raw.days AS d ON f.day = d.day
WHERE f.qty > 0
GROUP BY d.year, upper(d.name)
HAVING count(*) > 1
