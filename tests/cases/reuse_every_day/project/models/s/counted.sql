SELECT count(*) AS n FROM log
