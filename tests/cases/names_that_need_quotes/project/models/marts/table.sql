-- @partitioned_by: `from`
SELECT o.`from`, `order`.`a.b`, o.`ünï` AS `back``tick` FROM staging.`order` AS o JOIN `order` ON `order`.`from` = o.`from`
