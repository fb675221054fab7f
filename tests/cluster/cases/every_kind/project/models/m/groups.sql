-- @kind: tracked
-- @refresh: incremental
-- @group_key: person
SELECT person, id FROM orders
