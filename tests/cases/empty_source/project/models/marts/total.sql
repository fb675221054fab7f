SELECT count(*) AS n, sum(amount) AS total FROM staging.orders
