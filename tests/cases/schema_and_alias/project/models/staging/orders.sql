-- @schema: lake_house
-- @alias: orders_v2
SELECT 1 AS id
