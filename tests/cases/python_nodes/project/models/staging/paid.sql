SELECT id, customer, amount FROM raw.orders WHERE state = 'paid'
