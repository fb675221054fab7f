SELECT id FROM raw.events
