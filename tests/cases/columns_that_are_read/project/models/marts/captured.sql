-- `region` is an alias of the list until somebody adds a column of that name.
SELECT id AS region, region + 1 AS next FROM staging.orders
