-- @refresh: incremental
SELECT k FROM raw.keys AS a WHERE NOT EXISTS (SELECT 1 FROM raw.taken AS t WHERE t.k = a.k)
