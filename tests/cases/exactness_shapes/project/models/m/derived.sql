-- @refresh: incremental
SELECT d.id FROM (SELECT id, cid FROM raw.o) AS d WHERE d.cid > 1
