SELECT * FROM raw.orders
