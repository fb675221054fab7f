MODEL (
  kind table,
  description 'Revenue per day and channel, with the running total of the month',
  tags [marts, finance, daily],
);

WITH days AS (
  SELECT order_date, channel, count(*) AS orders, sum(total) AS revenue
  FROM fct_orders
  WHERE counts_as_revenue
  GROUP BY order_date, channel
)

SELECT
  order_date,
  channel,
  orders,
  revenue,
  sum(revenue) OVER (
    PARTITION BY channel, date_trunc('MONTH', order_date)
    ORDER BY order_date
  ) AS month_to_date
FROM days
