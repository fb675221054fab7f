SELECT id FROM __source("raw.orders")
