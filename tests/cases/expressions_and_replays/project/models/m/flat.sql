SELECT id, v FROM seen
