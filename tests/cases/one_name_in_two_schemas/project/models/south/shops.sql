SELECT 1 AS id, 'b' AS name
