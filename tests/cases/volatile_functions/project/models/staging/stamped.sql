SELECT 1 AS id, current_timestamp() AS at
