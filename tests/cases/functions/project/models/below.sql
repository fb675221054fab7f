SELECT count(*) AS many FROM direct WHERE n > 0
