SELECT sum(amount) AS total FROM marts.orders
