SELECT count(DISTINCT day) AS days FROM staging.events
