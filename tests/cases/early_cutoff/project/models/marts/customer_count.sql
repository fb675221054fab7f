SELECT count(*) AS customers FROM marts.customers
