SELECT name FROM staging.people
