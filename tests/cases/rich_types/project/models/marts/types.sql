SELECT CAST(1 AS TINYINT) AS tiny, 1S AS small, 1L AS big, 1.5F AS f, 1.5D AS d, 1.50BD AS n, TRUE AS yes,
  DATE'2025-01-02' AS day, TIMESTAMP'2025-01-02 03:04:05' AS at, TIMESTAMP_NTZ'2025-01-02 03:04:05' AS wall,
  X'00FF' AS bytes, array(struct(1 AS a, map('k', array(NULL, 2)) AS m)) AS deep
