-- @kind: append
SELECT d_id + 1, lower(s) FROM raw.d
