-- @kind: append
-- @on_drift: warn
SELECT id, amount FROM s.base
