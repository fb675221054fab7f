SELECT id FROM staging.orders
