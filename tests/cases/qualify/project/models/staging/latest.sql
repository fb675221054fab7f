SELECT id, version FROM raw.orders
QUALIFY row_number() OVER (PARTITION BY id ORDER BY version DESC) = 1
