-- @incremental: at
-- @incremental_initial: 2024-01-02 09:00:00
-- @incremental_strategy: append
-- @cursor_grain: 1s
SELECT id, CAST(ts AS TIMESTAMP_NTZ) AS at FROM raw.sales WHERE CAST(ts AS TIMESTAMP_NTZ) >= __cursor_start()
