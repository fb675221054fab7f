SELECT id FROM staging.stamped
