-- @kind: table
-- @refresh: incremental
SELECT * FROM raw.t AS a WHERE a.x IN (double('NaN'), 0.25D)
