SELECT id, seq, v FROM raw.events
