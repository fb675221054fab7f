-- @kind: scd2
-- @unique_key: id
-- @constraint: not_null(v, severity => warn)
-- @warning: row_count_delta(50%)
-- @warning: sum_delta(v, 10%)
SELECT id, v FROM raw.items
