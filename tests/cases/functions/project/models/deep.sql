-- @audit: negative()
-- @constraint: check(net(id, rate => 0) > 0)
SELECT id, label(amount) AS l FROM orders
