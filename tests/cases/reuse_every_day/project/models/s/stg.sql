SELECT id, amt FROM raw.orders WHERE amt > 0
