SELECT id,
  nme AS name
FROM VALUES (1, 'Ada') AS t(id, name)
