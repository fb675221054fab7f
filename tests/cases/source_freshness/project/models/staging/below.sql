SELECT count(*) AS n FROM staging.lag
