SELECT id, initial(country) AS i FROM orders
