-- @tags: [daily, finance]
SELECT p.id FROM staging.people AS p JOIN staging.orders AS o ON o.id = p.id
