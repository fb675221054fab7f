SELECT count(*) AS n FROM names
