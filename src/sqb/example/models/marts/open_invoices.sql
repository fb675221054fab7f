-- @kind: view
-- @description: Orders that are not paid in full, and whether they were overdue on the day of the newest order
-- @tags: [marts, finance]

WITH today AS (
  -- The data's own last day, not the clock: the same data then always gives the same answer.
  SELECT max(order_date) AS day
  FROM stg_orders
)

SELECT
  f.order_id,
  f.order_date,
  date_add(f.order_date, @@payment_days) AS due_on,
  c.customer_name,
  c.email,
  f.total - f.paid AS open_amount,
  t.day > date_add(f.order_date, @@payment_days) AS is_overdue
FROM fct_orders AS f
JOIN stg_customers AS c ON c.customer_id = f.customer_id
CROSS JOIN today AS t
WHERE f.counts_as_revenue AND f.paid < f.total
