-- @incremental: day
SELECT date_trunc('day', ts) AS day, count(*) AS n FROM raw.moments WHERE ts < __cursor_end() GROUP BY 1
