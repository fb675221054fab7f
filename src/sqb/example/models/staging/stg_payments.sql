MODEL (
  kind table,
  description 'Payments in euros; a refund is a negative amount',
  tags [staging, finance],
);

SELECT
  id AS payment_id,
  order_id,
  paid_on,
  lower(method) AS method,
  @cents_to_euros(amount_cents) AS amount,
  amount_cents < 0 AS is_refund
FROM payments
