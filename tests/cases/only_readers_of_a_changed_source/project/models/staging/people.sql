SELECT * FROM raw.people
