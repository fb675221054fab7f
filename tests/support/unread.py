"""Queries that Spark 4.1 takes and sqlglot does not read, over `t(id, name, json)` and `u(id, tag)`."""

from __future__ import annotations

UNREAD = [
    "FROM t |> WHERE id > 1 |> SELECT id, name",
    "FROM t |> EXTEND id + 1 AS next |> DROP name |> SET id = id * 2 |> ORDER BY next |> LIMIT 3",
    "FROM t |> AGGREGATE sum(id) AS total GROUP BY name",
    "FROM t |> JOIN u USING (id) |> SELECT t.id, u.tag",
    "SELECT * FROM t |> AS x |> SELECT x.id",
    "FROM (SELECT id AS order FROM t) |> SELECT order x",
    "VALUES (1, 'a'), (2, 'b')",
    "VALUES 1, 2",
    "TABLE t",
    "TABLE t UNION ALL TABLE t",
    "(TABLE t)",
    "WITH RECURSIVE r(n) MAX RECURSION LEVEL 9 AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r",
    "SELECT id !> 3 AS small FROM t",
    "SELECT 8 >>> 1 AS eighth, id FROM t",
    "SELECT parse_json(json):a.b AS b FROM t",
    "SELECT parse_json(json):a.c[0]::int AS c FROM t",
    "SELECT id AS values, name AS table FROM t |> SELECT values, table",
    "SELECT " + "(" * 200 + "id" + ")" * 200 + " AS id FROM t",
]  # fmt: skip
