-- @kind: tracked
-- @refresh: incremental
-- @group_key: order_id
SELECT order_id, line, amt FROM raw.lines WHERE amt > 0
