"""Tables found on tokens: by where a name stands, whatever else sqlglot would make of the text."""

from __future__ import annotations

import pytest

from sqb.sql.analysis.parse import read_query
from sqb.sql.text.lexer import tokenize_code
from sqb.sql.text.table_names import DynamicName, find_references, find_tables


def names(text: str, statement: bool = False) -> list[str]:
    return [".".join(n.parts) for n in find_tables(tokenize_code(text), statement) if not n.is_cte]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM a", "a"),
        ("FROM a SELECT x", "a"),
        ("TABLE s.a", "s.a"),
        ("TABLE a UNION ALL TABLE b", "a b"),
        ("WITH x AS (SELECT 1) TABLE x UNION TABLE y", "y"),
        ("VALUES (1, 'FROM a'), (2, 'b')", ""),
        ("SELECT * FROM a, s.b AS y, `c d`.`e` z, (SELECT * FROM f) g, h", "a s.b c d.e f h"),
        ("SELECT * FROM a JOIN b ON a.x = b.x, c", "a b c"),
        ("SELECT * FROM a JOIN b USING (x), c CROSS JOIN d", "a b c d"),
        ("SELECT * FROM (a JOIN b ON true) x, ((c))", "a b c"),
        ("SELECT x, y FROM a ORDER BY b, c", "a"),
        ("SELECT x, y FROM a GROUP BY b, c HAVING d, e LIMIT 3", "a"),
        ("SELECT x FROM a WHERE x IN (SELECT y, z FROM b) AND EXISTS (SELECT 1 FROM c)", "a b c"),
        ("SELECT (SELECT max(x), y FROM b) AS m, n FROM a", "b a"),
        ("SELECT 1 FROM a -- FROM b\n/* FROM c */ WHERE d = 'FROM e'", "a"),
        # FROM that is no FROM
        ("SELECT extract(YEAR FROM d), EXTRACT(day from (e)) FROM a", "a"),
        ("SELECT trim(BOTH 'x' FROM y), trim(LEADING FROM z), substring(x FROM 1 FOR 2) FROM a", "a"),
        ("SELECT overlay(x PLACING 'y' FROM z FOR 2) FROM a", "a"),
        ("SELECT x IS DISTINCT FROM y, x IS NOT DISTINCT FROM z FROM a", "a"),
        ("SELECT t.from, t.join, x AS table FROM a t", "a"),
        ("SELECT first, table FROM a", "a"),
        # functions, generators, inline tables
        ("SELECT * FROM range(10), explode(x), a", "a"),
        ("SELECT * FROM s.f(1) AS t, a", "a"),
        ("SELECT * FROM a LATERAL VIEW explode(m) kv AS k, v LATERAL VIEW OUTER inline(l) AS x, y", "a"),
        ("SELECT * FROM a, LATERAL (SELECT * FROM b), LATERAL explode(x) AS e(y), c", "a b c"),
        ("SELECT * FROM a LEFT JOIN LATERAL (SELECT 1 FROM b) s ON true", "a b"),
        ("SELECT * FROM VALUES (1, x), (2, y) AS v(i, j), a", "a"),
        ("SELECT * FROM VALUES (1), (2) v, a", "a"),
        ("SELECT * FROM (VALUES (1), (2)) AS v(x), a", "a"),
        ("SELECT * FROM f(TABLE(a), x => TABLE(SELECT * FROM b)), g(TABLE c PARTITION BY d), e", "a b c e"),
        ("SELECT stack(2, 1, 'x', 2, 'y') AS (i, n) FROM a", "a"),
        # the table's own clauses
        ("SELECT * FROM a TABLESAMPLE (10 PERCENT) REPEATABLE (4), b", "a b"),
        ("SELECT * FROM a PIVOT (sum(x) AS s FOR y IN ('p' AS p, 'q')) AS t, b", "a b"),
        ("SELECT * FROM a UNPIVOT INCLUDE NULLS ((v, w) FOR n IN ((x, y) AS p, (z, q))) u, b", "a b"),
        ("SELECT * FROM a VERSION AS OF 3, b FOR SYSTEM_TIME AS OF '2020-01-01' AS x, c", "a b c"),
        ("SELECT * FROM a WITH (`split-size` = 5) x, b", "a b"),
        # names of its own
        ("WITH x AS (SELECT * FROM a), y (c, d) AS (SELECT * FROM x, b) SELECT * FROM x, y, z", "a b z"),
        ("WITH x AS (SELECT * FROM x) SELECT * FROM X, s.x", "x s.x"),
        ("WITH RECURSIVE r(n) MAX RECURSION LEVEL 9 AS (SELECT 1 FROM a UNION ALL SELECT n FROM r) TABLE r", "a"),
        ("SELECT * FROM (WITH x AS (SELECT 1) SELECT * FROM x), x", "x"),
        ("WITH `x y` AS (SELECT 1), x AS (WITH z AS (TABLE a) TABLE z) SELECT * FROM `x y`, x, z", "a z"),
        ("SELECT a, sum(b) FROM t GROUP BY a WITH ROLLUP", "t"),
        # pipes
        ("FROM a |> WHERE x > 1 |> SELECT y, z |> ORDER BY p, q", "a"),
        ("FROM a, b |> AGGREGATE sum(x), max(y) GROUP BY z, w", "a b"),
        ("FROM a |> JOIN b USING (x) |> LEFT JOIN s.c AS d ON true |> UNION ALL (TABLE e), (FROM f)", "a b s.c e f"),
        ("FROM (FROM a |> SELECT x) |> EXTEND y, z |> DROP w, v |> AS t |> SET u = t.x, r = 1", "a"),
        ("SELECT TRANSFORM(x, y) USING 'cat' AS (p, q) FROM a", "a"),
        ("SELECT " + "(" * 3000 + "x" + ")" * 3000 + " FROM a", "a"),
    ],
)  # fmt: skip
def test_tables_of_queries(query: str, expected: str) -> None:
    assert " ".join(names(query)) == expected


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("INSERT INTO a SELECT x, y FROM b, c", "a b c"),
        ("INSERT INTO TABLE s.a (x, y) VALUES (z, 2)", "s.a"),
        ("INSERT OVERWRITE TABLE a PARTITION (x = 1) TABLE b", "a b"),
        ("INSERT OVERWRITE DIRECTORY 'x' USING parquet SELECT * FROM a", "a"),
        ("DELETE FROM a WHERE x IN (SELECT y FROM b)", "a b"),
        ("UPDATE a SET x = 1, y = (SELECT max(z) FROM b) WHERE w", "a b"),
        ("MERGE INTO a t USING b s ON t.x = s.x WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *", "a b"),
        ("MERGE INTO a USING (SELECT * FROM b) s ON true WHEN MATCHED THEN UPDATE SET x = s.x", "a b"),
        ("CREATE TABLE IF NOT EXISTS a USING iceberg AS SELECT * FROM b", "a b"),
        ("CREATE OR REPLACE VIEW v (x, y) AS WITH z AS (SELECT * FROM b) SELECT * FROM z", "v b"),
        ("ALTER TABLE a SET TBLPROPERTIES ('x' = 'y')", "a"),
        ("DROP TABLE IF EXISTS a", "a"),
        ("ANALYZE TABLE a COMPUTE STATISTICS FOR COLUMNS x, y", "a"),
        ("COMMENT ON TABLE a IS 'x'", "a"),
        ("CALL lake.system.rewrite_data_files(table => 'a', where => 'x = 1')", ""),
        ("WITH x AS (SELECT 1) INSERT INTO a SELECT * FROM x", "a"),
        ("GRANT SELECT ON a TO b", ""),
    ],
)  # fmt: skip
def test_tables_of_statements(statement: str, expected: str) -> None:
    assert " ".join(names(statement, statement=True)) == expected


def test_a_name_that_is_made_when_the_query_runs_is_refused() -> None:
    with pytest.raises(DynamicName) as caught:
        find_tables(tokenize_code("SELECT * FROM a, IDENTIFIER('b' || 'c')"))
    assert (caught.value.start, caught.value.end) == (17, 27)
    assert names("SELECT IDENTIFIER('x') FROM a") == ["a"]


def test_what_may_not_get_an_alias() -> None:
    references = find_references(
        tokenize_code("SELECT * FROM a x, b AS y, c VERSION AS OF 1, d TABLESAMPLE (1 ROWS), s.e, f"), {}
    )
    assert [r.alias for r in references] == [None, None, None, None, "e", "f"]
    assert [r.is_pinned for r in references] == [False, False, True, False, False, False]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT s.t.id, t.x, lake.s.t.y FROM lake.s.t WHERE s.t.z",
        "SELECT a.t.x, b.t.y FROM a.t JOIN b.t ON a.t.id = b.t.id",
        "SELECT * FROM a.t WHERE EXISTS (SELECT 1 FROM b.t WHERE t.x = a.t.x)",
        "SELECT t.y FROM a.t, LATERAL (SELECT a.t.z FROM b.t)",
        "SELECT t.a, s.t.b FROM u AS t JOIN s.t",
        "WITH t AS (SELECT 1 AS a) SELECT t.a, s.t.b FROM s.t JOIN t",
        "SELECT a.t.x FROM a.t UNION ALL SELECT b.t.x FROM b.t",
        "SELECT n.s.name FROM n.s WHERE n.s.id IN (SELECT r.s.id FROM r.s) AND n.s.x",
        "SELECT extract(YEAR FROM s.t.d), x FROM s.t TABLESAMPLE (5 ROWS), u v",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT r.n + 1 FROM r) SELECT * FROM r, s.q WHERE s.q.x = r.n",
    ],
)
def test_it_finds_what_the_parser_finds(query: str) -> None:
    def plain(references):
        return [(r.parts, r.start, r.end, r.alias, sorted(r.qualifiers), r.is_pinned) for r in references]

    read = read_query(query, {})
    assert read.unread is None
    assert plain(find_references(tokenize_code(query), {})) == plain(read.references)
