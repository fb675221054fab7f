SELECT id, `_pos` AS p FROM raw.t
