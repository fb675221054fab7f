SELECT id, day, shop FROM VALUES
  (3, DATE'2025-01-02', 'north'), (1, DATE'2025-02-03', 'south'), (2, DATE'2025-02-04', 'north') AS t(id, day, shop)
