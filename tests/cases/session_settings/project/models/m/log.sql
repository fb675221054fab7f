-- @kind: append
SELECT id, hour(at) AS h FROM raw.events
