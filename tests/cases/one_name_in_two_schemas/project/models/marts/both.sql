SELECT north.shops.name AS north, south.shops.name AS south, raw.shops.name AS raw
FROM north.shops
JOIN south.shops ON south.shops.id = north.shops.id
JOIN raw.shops ON raw.shops.id = north.shops.id
