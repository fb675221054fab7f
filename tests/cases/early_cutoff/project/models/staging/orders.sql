SELECT id, customer, amount FROM raw.orders WHERE amount > 0
