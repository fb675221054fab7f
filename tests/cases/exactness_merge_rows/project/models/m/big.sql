-- @kind: merge
-- @refresh: incremental
-- @unique_key: id
SELECT id, cid, amt FROM raw.o WHERE amt >= 10
