SELECT sum(amount) AS total FROM staging.big_orders
