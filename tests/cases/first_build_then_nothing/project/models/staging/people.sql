SELECT id, upper(name) AS name FROM seeds.people
