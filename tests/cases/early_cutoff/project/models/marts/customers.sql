SELECT DISTINCT customer FROM staging.orders
