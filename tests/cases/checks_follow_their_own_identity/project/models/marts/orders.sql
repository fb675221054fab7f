-- @kind: table
-- @constraint: compare(amount, >=, 0)
-- @constraint: references(customer, seeds.customers.id)
-- @audit: row_count(>, 1)
-- @warning: row_count_delta(20%)
SELECT id, customer, amount FROM seeds.orders
