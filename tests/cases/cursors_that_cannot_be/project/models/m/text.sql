-- @incremental: v
SELECT * FROM raw.events
