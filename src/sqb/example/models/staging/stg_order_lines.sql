-- @kind: table
-- @description: Order lines with their amount
-- @tags: [staging]

SELECT
  order_id,
  line_no,
  product_id,
  quantity,
  unit_price,
  CAST(quantity * unit_price AS DECIMAL(12, 2)) AS amount
FROM order_lines
