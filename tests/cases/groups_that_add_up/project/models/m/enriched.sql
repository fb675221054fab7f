-- @refresh: incremental
SELECT f.id, f.amount, d.name FROM raw.facts AS f LEFT JOIN raw.days AS d ON f.day = d.day
