SELECT 1 AS id, NULL AS later
