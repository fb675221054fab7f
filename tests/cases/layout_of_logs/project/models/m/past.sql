-- @kind: scd2
-- @unique_key: id
SELECT id, v FROM raw.a
