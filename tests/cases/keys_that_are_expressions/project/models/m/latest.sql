-- @refresh: incremental
SELECT id, at, row_number() OVER (PARTITION BY CAST(at AS DATE) ORDER BY at DESC, id) AS place FROM raw.events
