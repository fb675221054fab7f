SELECT id, name AS full_name, age
FROM seeds.people
WHERE age <> 0 AND name = 'Ada'
