SELECT count(*) AS n FROM report
