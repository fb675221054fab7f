SELECT id, boss, name FROM VALUES (1, NULL, 'Ada'), (2, 1, 'Grace') AS t(id, boss, name)
