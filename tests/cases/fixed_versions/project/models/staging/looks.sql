-- @kind: view
SELECT orders.id FROM raw.orders VERSION AS OF 'audit'
