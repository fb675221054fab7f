-- @kind: table
-- @refresh: incremental
SELECT f.k AS k, hash(*) = hash(f.k, f.g, f.n) AS is_same
FROM raw.t AS f
