SELECT id, ts, v FROM own
