-- @refresh: incremental
SELECT *, row_number() OVER (PARTITION BY cid ORDER BY amt, id) AS rn FROM raw.o QUALIFY rn = 2
