SELECT name FROM staging.bad
