-- @kind: tracked
-- @group_key: s
SELECT s, d_id + 0, `_col_0` FROM raw.e
