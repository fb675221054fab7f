SELECT id FROM VALUES (1), (2), (2) AS t(id)
