SELECT count(*) AS n FROM marts.sales
