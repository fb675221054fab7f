SELECT id FROM raw.orders FOR VERSION AS OF 'audit'
