-- @refresh: incremental
SELECT o.id, a.id AS audited FROM raw.orders AS o JOIN raw.orders VERSION AS OF 'audit' AS a ON a.id = o.id
