SELECT count(*) AS n FROM staging.people
