WITH wanted AS (SELECT id, CAST(day AS STRING) AS day FROM days)
SELECT w.id AS of, g.id, g.day
FROM wanted AS w
LEFT JOIN LATERAL gam_report(w.day, count => w.id - 1) AS g ON true
