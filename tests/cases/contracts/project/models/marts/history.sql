-- @kind: scd2
-- @unique_key: id
-- @contract: ID int, amount numeric(10,2)
SELECT amount, id FROM staging.orders
