-- @kind: table
-- @description: Revenue by region, category and month: a new sale changes one row of it
-- @tag: aggregate
-- @column: revenue: In euros
-- @audit: compare(revenue, >, 0)
SELECT
  st.region,
  p.category,
  date_trunc('MONTH', f.sold_on) AS month,
  count(*) AS sales,
  sum(f.quantity) AS items,
  sum(f.amount) AS revenue
FROM fct_sales AS f
JOIN dim_stores AS st ON st.store_id = f.store_id
JOIN dim_products AS p ON p.product_id = f.product_id
GROUP BY st.region, p.category, date_trunc('MONTH', f.sold_on)
