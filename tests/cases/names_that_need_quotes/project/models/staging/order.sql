SELECT `select` AS `from`, `my column` AS `a.b`, `ünï` FROM `group`
