SELECT id, @cents(price) AS price FROM VALUES (1, 250) AS t(id, price)
