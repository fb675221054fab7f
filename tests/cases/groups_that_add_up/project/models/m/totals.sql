-- @refresh: incremental
SELECT count(*) AS n, sum(f.amount) AS amount, coalesce(sum(f.qty), 0) + 1 AS qty FROM raw.facts AS f
