-- @kind: append
-- @refresh: incremental
SELECT id, initial(cast(amount AS STRING)) AS digit FROM orders
