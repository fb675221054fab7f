SELECT o.id, p.name FROM staging.orders AS o JOIN staging.people AS p ON p.id = o.person
