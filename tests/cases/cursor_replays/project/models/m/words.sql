-- @incremental: ts
SELECT seq, v, timestamp_seconds(seq) AS ts FROM own
