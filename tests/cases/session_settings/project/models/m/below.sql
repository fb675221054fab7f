SELECT h FROM hours WHERE id = 1
