-- @kind: view
SELECT name FROM staging.people
