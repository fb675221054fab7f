SELECT count(*) AS n FROM staging.ids
