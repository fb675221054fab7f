-- @kind: view
-- @description: Sales with plain names; buyers without a customer card are customer 0
-- @tag: staging
-- @column: discount_percent: What was taken off the price
SELECT
  sale_id,
  sold_on,
  store_id,
  product_id,
  coalesce(customer_id, 0) AS customer_id,
  quantity,
  discount AS discount_percent
FROM raw.sales
