SELECT id, customer, amount FROM sales
