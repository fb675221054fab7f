SELECT max(age) AS oldest FROM staging.people
