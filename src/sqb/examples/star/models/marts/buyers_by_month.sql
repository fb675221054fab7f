-- @kind: table
-- @description: How many different customers bought something, by month and segment
-- @tag: aggregate
-- @column: buyers: Each customer counts once a month
-- @column: segment: What the customer is now
SELECT
  date_trunc('MONTH', f.sold_on) AS month,
  c.segment,
  count(DISTINCT f.customer_id) AS buyers,
  count(*) AS sales
FROM fct_sales AS f
JOIN dim_customers AS c ON c.customer_id = f.customer_id AND c.is_current
GROUP BY date_trunc('MONTH', f.sold_on), c.segment
