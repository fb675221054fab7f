WITH orders AS (SELECT 7 AS id)
SELECT id FROM orders UNION ALL SELECT id FROM staging.orders
