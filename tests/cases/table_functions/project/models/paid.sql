MODEL (kind incremental, cursor at, cursor_start '2026-01-01', incremental_strategy delete_insert);
SELECT * FROM payments(__cursor_start())
