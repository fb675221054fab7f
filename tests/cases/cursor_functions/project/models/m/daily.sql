-- @incremental: day
-- @lookback: 1d
SELECT CAST(ts AS DATE) AS day, sum(amt) AS total, count(*) AS n
FROM raw.sales
-- Not a call: __cursor_start()
WHERE ts >= __cursor_start() AND ts < __CURSOR_END() AND '__cursor_end()' <> ''
GROUP BY CAST(ts AS DATE)
