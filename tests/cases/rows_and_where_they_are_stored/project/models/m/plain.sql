SELECT id FROM raw.t
