-- @kind: view
SELECT id, _FILE AS f FROM raw.t
