-- @kind: append
SELECT id, v FROM raw.a
