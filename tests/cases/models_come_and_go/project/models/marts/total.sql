SELECT count(*) AS n FROM staging.orders
