SELECT sum(id) AS n FROM staging.orders
