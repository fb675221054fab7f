SELECT count(*) AS n FROM lake_house.orders_v2
