-- @kind: merge
-- @unique_key: person
-- @refresh: incremental
SELECT person, sum(amount) AS total FROM orders GROUP BY person
