-- @kind: append
-- @refresh: incremental
SELECT `a``b` FROM raw.odd
