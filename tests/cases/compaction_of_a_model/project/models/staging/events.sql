-- @partitioned_by: day
SELECT id, day FROM raw.events
