-- @refresh: incremental
-- Reads two columns, through a CTE with a star.
WITH orders AS (SELECT * FROM staging.orders)
SELECT customer, sum(price) AS total FROM orders GROUP BY customer
