-- @kind: scd2
-- @unique_key: customer_id
-- @description: Customers and what was known of them when: a change of segment or city opens a new version
-- @tag: dimension
-- @column: customer_id: The key, once for every version
-- @column: segment: private, office or café
-- @constraint: not_null(customer_id)
SELECT customer_id, segment, city, since
FROM seeds.customers
