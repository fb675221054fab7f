-- @kind: view
SELECT id, seq, v FROM raw.events WHERE v >= 0
