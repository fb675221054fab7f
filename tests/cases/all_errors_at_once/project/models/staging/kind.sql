MODEL (kind tabel);
SELECT 1 AS id
