-- @kind: view
SELECT id, ts, v FROM raw.events
