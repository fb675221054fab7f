SELECT count(*) AS n FROM staging.seen
