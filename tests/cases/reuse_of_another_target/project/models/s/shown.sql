-- @kind: view
SELECT pid, total FROM sums
