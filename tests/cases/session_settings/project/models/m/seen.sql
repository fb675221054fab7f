-- @kind: view
SELECT count(*) AS n FROM raw.events
