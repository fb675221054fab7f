MODEL (
  kind table,
  description 'One row per order: what it is worth and what has been paid',
  tags [marts, finance],
  constraints [compare(paid, >=, 0), references(customer_id, staging.stg_customers.customer_id)],
  audits [row_count(>, 0)],
  partitioned_by [months(order_date)],
);

WITH lines AS (
  SELECT
    order_id,
    count(*) AS line_count,
    sum(quantity) AS item_count,
    CAST(sum(amount) AS DECIMAL(12, 2)) AS total
  FROM stg_order_lines
  GROUP BY order_id
),

paid AS (
  SELECT
    order_id,
    CAST(sum(amount) AS DECIMAL(12, 2)) AS paid,
    max(paid_on) AS last_paid_on
  FROM stg_payments
  GROUP BY order_id
)

SELECT
  o.order_id,
  o.customer_id,
  o.order_date,
  o.status,
  o.channel,
  o.status NOT IN ('cancelled', 'returned') AS counts_as_revenue,
  coalesce(l.line_count, 0) AS line_count,
  coalesce(l.item_count, 0) AS item_count,
  coalesce(l.total, 0.00) AS total,
  coalesce(p.paid, 0.00) AS paid,
  p.last_paid_on,
  row_number() OVER (
    PARTITION BY o.customer_id
    ORDER BY o.order_date, o.order_id
  ) AS nth_order_of_customer
FROM staging.stg_orders AS o
LEFT JOIN lines AS l ON l.order_id = o.order_id
LEFT JOIN paid AS p ON p.order_id = o.order_id
