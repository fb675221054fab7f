-- @kind: table
-- @description: Products with their category, brand and price
-- @tag: dimension
-- @column: product_id: The key
-- @column: price: In euros; the README makes this check fail
-- @constraint: primary_key(product_id)
-- @constraint: compare(price, >, 0)
SELECT product_id, name AS product, category, brand, price
FROM seeds.products
