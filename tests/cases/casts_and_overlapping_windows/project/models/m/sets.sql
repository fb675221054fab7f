-- @refresh: incremental
SELECT k, g, count(*) AS n FROM raw.f GROUP BY ROLLUP (k, g), CUBE (k)
