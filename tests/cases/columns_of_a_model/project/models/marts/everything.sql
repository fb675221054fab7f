SELECT * FROM staging.orders
