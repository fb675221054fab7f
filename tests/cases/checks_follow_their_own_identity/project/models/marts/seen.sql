-- @kind: view
-- @audit: too_dear(most => 100)
SELECT id, amount FROM marts.orders
