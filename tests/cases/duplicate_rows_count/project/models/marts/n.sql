SELECT count(*) AS n FROM staging.words
