-- @refresh: incremental
SELECT g1, count(DISTINCT g1) AS c, count(*) AS n FROM raw.f AS f JOIN raw.d AS d ON f.k = d.k GROUP BY ROLLUP (g1)
