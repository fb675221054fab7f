-- @refresh: incremental
SELECT f.k, a.k AS text FROM raw.f AS f FULL JOIN raw.a AS a ON f.k = a.k
