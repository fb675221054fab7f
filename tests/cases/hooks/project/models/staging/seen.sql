-- @kind: view
-- @post_hook: INSERT INTO raw.log SELECT 'view', max(amount) FROM seen
SELECT id, amount FROM staging.orders
