SELECT id FROM raw.orders VERSION AS OF 'monday'
