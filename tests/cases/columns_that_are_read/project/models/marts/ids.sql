SELECT o.id FROM staging.orders o
