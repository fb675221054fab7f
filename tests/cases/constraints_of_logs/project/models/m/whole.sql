SELECT id, v FROM raw.a
