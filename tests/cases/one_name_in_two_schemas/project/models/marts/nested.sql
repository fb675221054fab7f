SELECT north.shops.name
FROM north.shops
WHERE EXISTS (SELECT 1 FROM south.shops WHERE south.shops.id = north.shops.id)
  AND north.shops.id IN (SELECT raw.shops.id FROM raw.shops)
