WITH cleaned AS (SELECT id, amount FROM seeds.orders)
SELECT id, amount FROM cleaned
