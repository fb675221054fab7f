-- @kind: table
-- @refresh: incremental
SELECT id, name, "say ""it""" AS said
FROM raw.t
WHERE name IN ('it''s', 'b\'s') -- and no other
QUALIFY row_number() OVER (PARTITION BY name ORDER BY id DESC) = 1
