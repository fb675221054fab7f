-- @refresh: incremental
SELECT SUM(amt) AS s, COUNT(*) AS n FROM raw.o
