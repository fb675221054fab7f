-- @refresh: incremental
WITH x AS (SELECT id, cid FROM raw.o) SELECT a.id, b.id AS other FROM x AS a JOIN x AS b ON a.cid = b.cid
