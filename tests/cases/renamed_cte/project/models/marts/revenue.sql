SELECT sum(amount) AS revenue FROM staging.orders
