-- @kind: view
SELECT id, cid, amt FROM raw.o WHERE amt > 0
