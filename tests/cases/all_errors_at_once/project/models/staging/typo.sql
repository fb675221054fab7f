-- @knd: table
SELECT 1 AS id
