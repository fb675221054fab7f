-- @kind: table
-- @description: One row per line on a receipt, with what was paid for it
-- @tag: fact
-- @partitioned_by: months(sold_on)
-- @column: sale_id: The key
-- @column: customer_id: 0 without a customer card
-- @column: amount: In euros, after the discount
-- @constraint: primary_key(sale_id)
-- @constraint: compare(amount, >=, 0)
-- @audit: references(store_id, marts.dim_stores.store_id)
-- @audit: row_count(>, 0)
SELECT
  s.sale_id,
  s.sold_on,
  s.store_id,
  s.product_id,
  s.customer_id,
  s.quantity,
  CAST(s.quantity * p.price * (100 - s.discount_percent) / 100 AS DECIMAL(12, 2)) AS amount
FROM stg_sales AS s
JOIN dim_products AS p ON p.product_id = s.product_id
