-- Each WITH is seen where it stands: there are two of one name.
SELECT o.id, o.version
FROM (
  WITH w AS (SELECT id, version FROM raw.orders) SELECT id, version FROM w
  UNION ALL
  SELECT id, version FROM (WITH w AS (SELECT id + 10 AS id, version FROM raw.orders) SELECT id, version FROM w)
) AS o
QUALIFY row_number() OVER (PARTITION BY o.id ORDER BY o.version DESC) = 1
