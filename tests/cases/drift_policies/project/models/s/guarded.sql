-- @on_drift: fail
SELECT id, amount FROM s.base
