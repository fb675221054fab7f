SELECT sum(total) AS total FROM orders
