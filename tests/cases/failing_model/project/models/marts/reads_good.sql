SELECT id FROM staging.good
