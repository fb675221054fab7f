SELECT * FROM raw.things
