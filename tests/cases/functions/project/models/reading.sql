-- A query of this name is not the table that a function reads.
WITH rates AS (SELECT 9 AS unused)
SELECT id, net(amount, rate_of(country)) AS n FROM orders CROSS JOIN rates
