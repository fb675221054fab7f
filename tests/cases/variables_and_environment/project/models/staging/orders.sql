SELECT id FROM VALUES (1, 5), (2, 15), (3, 25) AS t(id, amount) WHERE amount >= @@least
