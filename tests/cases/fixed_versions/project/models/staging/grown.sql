SELECT id FROM raw.orders
EXCEPT
SELECT o.id FROM raw.orders VERSION AS OF 'monday' AS o
