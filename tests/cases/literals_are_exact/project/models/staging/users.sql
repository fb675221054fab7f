SELECT 1 AS id, 'Active' AS status, 'a b' AS note
