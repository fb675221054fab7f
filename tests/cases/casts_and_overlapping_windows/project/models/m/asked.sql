-- @refresh: incremental
SELECT f.k, f.g, f.k IN (SELECT b.k FROM raw.b AS b) AS is_in FROM raw.f AS f WHERE f.k IS NOT NULL
