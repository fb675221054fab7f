-- @kind: scd2
-- @unique_key: k
SELECT d_id % 10 AS k, max(d_id), upper(max(s)) FROM raw.d GROUP BY 1
