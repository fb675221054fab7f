-- @refresh: incremental
-- @audit: row_count(>, 0)
SELECT o.pid, sum(o.amt) AS total FROM stg o JOIN people p ON p.pid = o.pid GROUP BY o.pid
