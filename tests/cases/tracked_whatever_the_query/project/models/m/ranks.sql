-- @kind: tracked
-- @group_key: order_id
-- @partitioned_by: order_id
SELECT order_id, line, amt, row_number() OVER (ORDER BY amt DESC, order_id, line) AS place FROM raw.lines
