MODEL (
  kind table,
  description 'Orders with one spelling per status',
  tags [staging],
  constraints [primary_key(order_id), not_null(order_date)],
);

SELECT
  id AS order_id,
  customer_id,
  order_date,
  CASE
    WHEN lower(trim(status)) IN ('cancelled', 'canceled') THEN 'cancelled'
    WHEN lower(trim(status)) IN ('delivered', 'complete') THEN 'delivered'
    WHEN lower(trim(status)) IN ('returned') THEN 'returned'
    ELSE lower(trim(status))
  END AS status,
  channel
FROM seeds.orders
