FROM raw.orders
|> WHERE amount > 1
|> SELECT id, amount
