-- @incremental: id
-- @cursor_type: integer
-- @unique_key: id
-- @contract: id bigint not null, v int
SELECT id, v FROM raw.a
