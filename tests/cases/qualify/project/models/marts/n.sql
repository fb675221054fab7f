SELECT count(*) AS n FROM latest
