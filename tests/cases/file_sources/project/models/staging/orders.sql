SELECT id, amount FROM orders_csv
