WITH orders AS (SELECT 7 AS id)
SELECT id FROM orders
