-- @kind: view
-- @description: Products with one spelling per category
-- @tags: [staging]

SELECT
  id AS product_id,
  trim(name) AS product_name,
  initcap(category) AS category,
  list_price,
  active AS is_active
FROM products
