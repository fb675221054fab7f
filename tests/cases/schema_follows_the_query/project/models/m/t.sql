-- @refresh: incremental
SELECT id, n, x, d FROM raw.t
