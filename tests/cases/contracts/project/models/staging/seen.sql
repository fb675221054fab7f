-- @kind: view
-- @contract: n bigint
SELECT count(*) AS n FROM staging.orders
