-- @kind: merge
-- @unique_key: id
SELECT * FROM paid
