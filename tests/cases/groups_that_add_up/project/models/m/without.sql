-- @refresh: incremental
-- @aggregate_state: false
SELECT d.year, sum(f.amount) AS amount FROM raw.facts AS f JOIN raw.days AS d ON f.day = d.day GROUP BY d.year
