MODEL (
  kind incremental,
  cursor ts,
  cursor_start '2024-01-02',
  partitioned_by [days(ts)],
  contract (id int, ts timestamp, amt int),
  constraints [unique(id)],
);
SELECT * FROM raw.sales
