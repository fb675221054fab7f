SELECT * FROM seeds.people
