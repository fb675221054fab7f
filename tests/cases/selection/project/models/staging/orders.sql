SELECT id FROM raw.orders
