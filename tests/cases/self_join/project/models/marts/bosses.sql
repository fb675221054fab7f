SELECT people.name, b.name AS boss
FROM people
LEFT JOIN people AS b ON b.id = people.boss
