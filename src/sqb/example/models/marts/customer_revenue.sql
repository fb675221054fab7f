-- @kind: table
-- @description: What each customer has bought, best customers first; those without an order are in it too
-- @tags: [marts, finance]
-- @sorted_by: revenue_rank

WITH revenue AS (
  SELECT
    customer_id,
    count(*) AS orders,
    sum(total) AS revenue,
    min(order_date) AS first_order_on,
    max(order_date) AS last_order_on
  FROM fct_orders
  WHERE counts_as_revenue
  GROUP BY customer_id
)

SELECT
  c.customer_id,
  c.customer_name,
  c.country,
  coalesce(r.orders, 0) AS orders,
  coalesce(r.revenue, 0.00) AS revenue,
  r.first_order_on,
  r.last_order_on,
  datediff(r.first_order_on, c.signed_up_on) AS days_to_first_order,
  rank() OVER (ORDER BY coalesce(r.revenue, 0.00) DESC) AS revenue_rank
FROM stg_customers AS c
LEFT JOIN revenue AS r ON r.customer_id = c.customer_id
