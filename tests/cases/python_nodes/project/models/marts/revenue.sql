SELECT customer, sum(amount) AS amount FROM staging.paid GROUP BY customer
