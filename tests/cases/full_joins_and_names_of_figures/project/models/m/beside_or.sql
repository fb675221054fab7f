-- @refresh: incremental
SELECT f.id, b.s FROM raw.f AS f FULL JOIN raw.b AS b ON f.k = b.k AND f.n = b.n OR f.n = 9
