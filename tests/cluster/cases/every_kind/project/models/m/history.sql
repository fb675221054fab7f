-- @refresh: incremental
-- @kind: scd2
-- @unique_key: person
SELECT person, total FROM totals
