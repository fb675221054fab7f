-- @kind: table
-- @description: Stores by city and region
-- @tag: dimension
-- @column: store_id: The key
-- @column: region: north, east, south or west
-- @constraint: primary_key(store_id)
-- @constraint: in_list(region, 'north', 'east', 'south', 'west')
SELECT store_id, name AS store, city, region, opened_on
FROM seeds.stores
