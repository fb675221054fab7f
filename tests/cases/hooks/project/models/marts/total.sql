-- @post_hook: ALTER TABLE @@this SET TBLPROPERTIES ('team' = 'finance')
-- @post_hook: CALL lake.system.expire_snapshots(table => @@this, retain_last => 1)
SELECT sum(amount) AS total FROM seen
