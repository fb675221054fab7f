-- @kind: view
SELECT * FROM staging.seen
