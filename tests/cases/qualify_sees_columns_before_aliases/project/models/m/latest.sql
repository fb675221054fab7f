-- @refresh: incremental
SELECT o.cid AS id, o.id AS amt, o.amt AS v FROM raw.o AS o QUALIFY row_number() OVER (PARTITION BY o.id ORDER BY o.amt DESC) = 1
