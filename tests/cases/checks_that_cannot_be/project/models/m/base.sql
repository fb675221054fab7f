SELECT 1 AS id, 'a' AS name, DATE '2026-01-01' AS day
