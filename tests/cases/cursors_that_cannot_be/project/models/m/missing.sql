-- @incremental: when
SELECT * FROM raw.events
