SELECT d_id % 10, max(s) FROM raw.d GROUP BY 1 UNION ALL SELECT d_id % 10, lower(s) FROM raw.e
