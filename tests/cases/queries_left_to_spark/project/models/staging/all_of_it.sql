-- @kind: view
TABLE raw.orders
