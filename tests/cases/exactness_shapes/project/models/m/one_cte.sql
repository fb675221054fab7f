-- @refresh: incremental
WITH x AS (SELECT id, amt FROM raw.o WHERE amt > 5) SELECT id, amt * 2 AS double_amt FROM x
