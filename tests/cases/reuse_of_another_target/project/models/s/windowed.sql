-- @incremental: id
-- @incremental_initial: 0
SELECT id, amt FROM stg
