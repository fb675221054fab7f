SELECT count(*) AS n FROM both
