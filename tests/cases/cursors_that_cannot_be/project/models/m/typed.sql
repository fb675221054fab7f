-- @incremental: seq
SELECT * FROM raw.events
