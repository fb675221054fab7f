SELECT id, f FROM seen
