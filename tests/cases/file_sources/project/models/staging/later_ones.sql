SELECT * FROM later
