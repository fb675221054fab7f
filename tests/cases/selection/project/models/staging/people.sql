-- @tags: [daily]
SELECT id FROM seeds.people
