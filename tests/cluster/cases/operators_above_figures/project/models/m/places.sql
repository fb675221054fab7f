-- @refresh: incremental
WITH totals AS (
  SELECT d.year, sum(f.amount) AS amount, count(*) AS n
  FROM raw.facts AS f JOIN raw.days AS d ON f.day = d.day
  GROUP BY d.year
),
ranked AS (SELECT year, amount, rank() OVER (ORDER BY amount DESC) AS place FROM totals)
SELECT f.id, r.year, r.place
FROM raw.facts AS f
JOIN raw.days AS d ON f.day = d.day
LEFT JOIN ranked AS r ON d.year = r.year
