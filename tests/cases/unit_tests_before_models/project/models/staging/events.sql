SELECT * FROM raw.events
