-- @refresh: incremental
SELECT k, f.n, b.s, c.s AS t
FROM raw.f AS f
FULL JOIN raw.b AS b USING (k)
FULL JOIN raw.c AS c USING (k)
