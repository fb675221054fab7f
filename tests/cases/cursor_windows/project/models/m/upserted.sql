MODEL (
  kind incremental,
  cursor seq,
  cursor_type integer,
  unique_key id,
);
SELECT id, seq, v FROM raw.events QUALIFY row_number() OVER (PARTITION BY id ORDER BY seq DESC, v DESC) = 1
