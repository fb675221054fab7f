SELECT (SELECT count(*) FROM staging.orders) AS through_table,
  (SELECT count(*) FROM raw.orders) AS directly,
  (SELECT count(*) FROM staging.seen) AS through_view
