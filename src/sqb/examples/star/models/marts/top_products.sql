-- @kind: table
-- @description: The ten products with the highest revenue
-- @tag: report
-- @column: revenue: In euros
-- @audit: row_count(=, 10)
SELECT p.product_id, p.product, p.category, sum(f.amount) AS revenue
FROM fct_sales AS f
JOIN dim_products AS p ON p.product_id = f.product_id
GROUP BY p.product_id, p.product, p.category
ORDER BY revenue DESC, p.product_id
LIMIT 10
