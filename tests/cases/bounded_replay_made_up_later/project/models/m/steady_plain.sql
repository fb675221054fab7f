-- @incremental: ts
SELECT id, ts, v FROM own
