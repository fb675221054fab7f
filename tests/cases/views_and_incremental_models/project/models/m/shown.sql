-- @kind: view
SELECT cid, s FROM sums WHERE s > 5
