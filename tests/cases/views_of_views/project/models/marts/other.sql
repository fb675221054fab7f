SELECT count(*) AS n FROM raw.orders
