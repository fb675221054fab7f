SELECT id, net(amount) AS n FROM orders
