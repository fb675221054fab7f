SELECT id FROM raw.seen
