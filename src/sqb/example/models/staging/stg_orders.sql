MODEL (
  kind table,
  description 'Orders with one spelling per status',
  tags [staging],
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
