SELECT d_id % 2, s, row_number() OVER (PARTITION BY d_id % 2 ORDER BY d_id) FROM raw.d
