SELECT d_id % 10, count(*) FROM raw.d GROUP BY d_id % 10
