SELECT o.id, initial(p.name) AS letter, o.amount FROM orders AS o JOIN people AS p ON o.person = p.id
