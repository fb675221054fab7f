SELECT id, seq, v FROM seen
