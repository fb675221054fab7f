SELECT sum(amount) AS total FROM staging.orders
