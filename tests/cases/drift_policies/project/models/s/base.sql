SELECT * FROM VALUES (1, 10), (2, 20) AS t(id, amount)
