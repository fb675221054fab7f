-- @kind: view
SELECT k FROM m.q
