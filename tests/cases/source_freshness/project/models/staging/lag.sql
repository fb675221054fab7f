SELECT id FROM raw.lag
