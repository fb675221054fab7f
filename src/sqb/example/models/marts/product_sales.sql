-- @kind: table
-- @description: Sales per product, also of products that nobody bought
-- @tags: [marts]

WITH sold AS (
  SELECT
    l.product_id,
    count(DISTINCT l.order_id) AS orders,
    sum(l.quantity) AS quantity,
    sum(l.amount) AS revenue
  FROM stg_order_lines AS l
  JOIN stg_orders AS o ON o.order_id = l.order_id
  WHERE o.status NOT IN ('cancelled', 'returned')
  GROUP BY l.product_id
)

SELECT
  p.product_id,
  p.product_name,
  p.category,
  p.is_active,
  coalesce(s.orders, 0) AS orders,
  coalesce(s.quantity, 0) AS quantity,
  coalesce(s.revenue, 0.00) AS revenue,
  rank() OVER (PARTITION BY p.category ORDER BY coalesce(s.revenue, 0.00) DESC) AS rank_in_category
FROM stg_products AS p
LEFT JOIN sold AS s ON s.product_id = p.product_id
