WITH orders AS (SELECT id + 1 AS id FROM orders)
SELECT id FROM orders
