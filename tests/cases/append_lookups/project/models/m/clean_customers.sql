-- @kind: view
SELECT id, upper(name) AS name FROM raw.customers
