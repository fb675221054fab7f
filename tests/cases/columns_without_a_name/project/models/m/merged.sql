-- @kind: merge
-- @unique_key: k
SELECT d_id % 10 AS k, max(d_id), max(s) FROM raw.d GROUP BY d_id % 10
