SELECT id FROM VALUES (2), (3) AS t(id)
