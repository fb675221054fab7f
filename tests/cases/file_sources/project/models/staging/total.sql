SELECT sum(amount) AS amount FROM staging.orders
