-- @refresh: incremental
SELECT g1, g0, max(n) AS n FROM raw.f AS f JOIN raw.d AS d ON f.k = d.k GROUP BY g1, g0
