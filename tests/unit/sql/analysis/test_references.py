"""Which tables a query reads, and the text that is run once each has become a relation."""

from __future__ import annotations

import pytest

from sqb.cache import codec
from sqb.sql.analysis.parse import read_query
from sqb.sql.analysis.query import Query, QueryProblem
from sqb.sql.text.spans import Reference, fill_references


def names(sql: str) -> list[str]:
    return [r.name for r in read_query(sql, {}).references]


def filled(sql: str) -> str:
    """The query with its references replaced by R0, R1, …"""
    query = read_query(sql, {})
    return fill_references(query.runnable, query.slots, {i: f"R{i}" for i in range(len(query.slots))})[0]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT 1", []),
        ("SELECT * FROM t", ["t"]),
        ("SELECT * FROM a, b", ["a", "b"]),
        ("SELECT * FROM s.t", ["s.t"]),
        ("SELECT * FROM lake.s.t", ["lake.s.t"]),
        ("SELECT * FROM a.b.c.d", ["a.b.c.d"]),
        ("SELECT * FROM `s`.`t`", ["s.t"]),
        ("SELECT * FROM `weird name`", ["weird name"]),
        ("SELECT * FROM a JOIN b USING (id)", ["a", "b"]),
        ("SELECT * FROM a NATURAL JOIN b", ["a", "b"]),
        ("SELECT * FROM a LEFT ANTI JOIN b ON a.x = b.x LEFT SEMI JOIN c ON a.x = c.x", ["a", "b", "c"]),
        ("SELECT * FROM (a CROSS JOIN b)", ["a", "b"]),
        ("SELECT * FROM t x JOIN t y ON x.id = y.id", ["t", "t"]),
        ("SELECT * FROM (SELECT * FROM t) x", ["t"]),
        ("SELECT (SELECT max(x) FROM u) FROM t", ["u", "t"]),
        ("SELECT * FROM t WHERE EXISTS (SELECT 1 FROM u)", ["t", "u"]),
        ("SELECT * FROM t WHERE id IN (SELECT id FROM u)", ["t", "u"]),
        ("SELECT * FROM t WHERE a > (SELECT avg(b) FROM u)", ["t", "u"]),
        ("SELECT CASE WHEN EXISTS (SELECT 1 FROM u) THEN 1 END FROM t", ["u", "t"]),
        ("SELECT * FROM t LATERAL VIEW explode(xs) e AS x", ["t"]),
        ("SELECT * FROM t LATERAL VIEW OUTER explode(xs) x", ["t"]),
        ("SELECT * FROM t, LATERAL (SELECT * FROM u WHERE u.id = t.id)", ["t", "u"]),
        ("SELECT * FROM t UNION ALL SELECT * FROM u EXCEPT SELECT * FROM v", ["t", "u", "v"]),
        ("(SELECT * FROM t) UNION (SELECT * FROM u) ORDER BY 1", ["t", "u"]),
        ("SELECT * FROM t PIVOT (sum(v) FOR k IN ('a', 'b'))", ["t"]),
        ("SELECT * FROM t UNPIVOT (v FOR k IN (a, b))", ["t"]),
        ("SELECT * FROM VALUES (1, 2) AS v(a, b)", []),
        ("SELECT * FROM (VALUES (1, 2)) AS v(a, b)", []),
        ("SELECT * FROM range(10)", []),
        ("SELECT * FROM explode(array(1, 2)) AS t(x)", []),
        ("SELECT * FROM t VERSION AS OF 12", ["t"]),
        ("SELECT * FROM t TIMESTAMP AS OF '2024-01-01'", ["t"]),
        ("SELECT * FROM t TABLESAMPLE (10 PERCENT)", ["t"]),
        ("FROM t SELECT a", ["t"]),
        ("FROM t |> WHERE a > 1 |> JOIN u USING (a)", ["t", "u"]),
        ("SELECT a, 't' AS b -- FROM x\nFROM t /* JOIN y */", ["t"]),
        ("SELECT /*+ BROADCAST(u), REPARTITION(3) */ * FROM t JOIN u USING (a)", ["t", "u"]),
        ("SELECT * FROM t QUALIFY row_number() OVER (PARTITION BY a ORDER BY b) = 1", ["t"]),
    ],
)
def test_tables_that_a_query_reads(sql: str, expected: list[str]) -> None:
    assert names(sql) == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("WITH a AS (SELECT * FROM b) SELECT * FROM a", ["b"]),
        ("WITH a AS (SELECT * FROM b) SELECT * FROM A", ["b"]),
        ("WITH a AS (SELECT 1), b AS (SELECT * FROM a) SELECT * FROM b, c", ["c"]),
        # A CTE is not there for itself nor for those before it, unless it is recursive.
        ("WITH a AS (SELECT * FROM a) SELECT * FROM a", ["a"]),
        ("WITH b AS (SELECT * FROM a), a AS (SELECT 1) SELECT * FROM b", ["a"]),
        ("WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT * FROM r", []),
        ("WITH RECURSIVE r(n) AS (SELECT * FROM x UNION ALL SELECT n + 1 FROM r) SELECT * FROM r", ["x"]),
        # What a CTE defines ends with its query.
        ("SELECT * FROM (WITH a AS (SELECT 1) SELECT * FROM a) JOIN a", ["a"]),
        ("WITH a AS (WITH c AS (SELECT * FROM d) SELECT * FROM c) SELECT * FROM a, c", ["d", "c"]),
        ("WITH a AS (SELECT 1) SELECT * FROM t WHERE x IN (SELECT y FROM a)", ["t"]),
        ("WITH a AS (SELECT 1) SELECT * FROM (WITH b AS (SELECT * FROM a) SELECT * FROM b)", []),
        ("WITH a AS (SELECT 1) SELECT * FROM a UNION ALL SELECT * FROM a", []),
        # A qualified name is never a CTE.
        ("WITH a AS (SELECT 1) SELECT * FROM s.a", ["s.a"]),
    ],
)
def test_names_of_ctes_are_not_references(sql: str, expected: list[str]) -> None:
    assert names(sql) == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT t.id FROM t", "SELECT t.id FROM R0 AS `t`"),
        ("SELECT o.id FROM t AS o", "SELECT o.id FROM R0 AS o"),
        ("SELECT o.id FROM t o", "SELECT o.id FROM R0 o"),
        ("SELECT t.id, s.t.id, s.t.* FROM s.t", "SELECT t.id, `t`.id, `t`.* FROM R0 AS `t`"),
        ("SELECT lake.s.t.id, s.t.id FROM lake.s.t", "SELECT `t`.id, `t`.id FROM R0 AS `t`"),
        ("SELECT s.t.x.y, s.t.x.y.z FROM s.t", "SELECT `t`.x.y, `t`.x.y.z FROM R0 AS `t`"),
        ("SELECT s.x.y FROM t AS s", "SELECT s.x.y FROM R0 AS s"),
        ("SELECT S.T.id FROM s.t", "SELECT `t`.id FROM R0 AS `t`"),
        (
            "SELECT a.t.id, b.t.id FROM a.t JOIN b.t ON a.t.id = b.t.id",
            "SELECT `a__t`.id, `b__t`.id FROM R0 AS `a__t` JOIN R1 AS `b__t` ON `a__t`.id = `b__t`.id",
        ),
        (
            "WITH x AS (SELECT t.id FROM a.t), y AS (SELECT t.id FROM b.t) SELECT x.id FROM x JOIN y USING (id)",
            "WITH x AS (SELECT t.id FROM R0 AS `t`), y AS (SELECT t.id FROM R1 AS `t`)"
            " SELECT x.id FROM x JOIN y USING (id)",
        ),
        (
            "SELECT t.a FROM a.t JOIN (SELECT t.b FROM b.t) x ON t.a = x.b",
            "SELECT t.a FROM R0 AS `t` JOIN (SELECT t.b FROM R1 AS `t`) x ON t.a = x.b",
        ),
        (
            "SELECT * FROM a.t WHERE EXISTS (SELECT 1 FROM b.t WHERE t.x = a.t.x)",
            "SELECT * FROM R0 AS `a__t` WHERE EXISTS (SELECT 1 FROM R1 AS `b__t` WHERE `b__t`.x = `a__t`.x)",
        ),
        (
            "SELECT t.y FROM a.t, LATERAL (SELECT a.t.z FROM b.t)",
            "SELECT `a__t`.y FROM R0 AS `a__t`, LATERAL (SELECT `a__t`.z FROM R1 AS `b__t`)",
        ),
        ("SELECT t.a, s.t.b FROM u AS t JOIN s.t", "SELECT t.a, `s__t`.b FROM R0 AS t JOIN R1 AS `s__t`"),
        (
            "WITH t AS (SELECT 1 AS a) SELECT t.a, s.t.b FROM s.t JOIN t",
            "WITH t AS (SELECT 1 AS a) SELECT t.a, `s__t`.b FROM R0 AS `s__t` JOIN t",
        ),
        ("SELECT * FROM t VERSION AS OF 12", "SELECT * FROM R0 VERSION AS OF 12"),
        ("SELECT x.a FROM t FOR VERSION AS OF 12 AS x", "SELECT x.a FROM R0 FOR VERSION AS OF 12 AS x"),
        ("SELECT x.a FROM s.t TABLESAMPLE (9 ROWS) AS x", "SELECT x.a FROM R0 TABLESAMPLE (9 ROWS) AS x"),
        ("SELECT /*+ BROADCAST(t) */ t.a FROM s.t", "SELECT /*+ BROADCAST(t) */ t.a FROM R0 AS `t`"),
        ("SELECT * FROM t -- c\nWHERE /* c */ a='x  y'", "SELECT * FROM R0 AS `t` -- c\nWHERE /* c */ a='x  y'"),
    ],
)
def test_the_query_is_run_as_written_but_for_its_references(sql: str, expected: str) -> None:
    assert filled(sql) == expected


def test_qualify_is_run_as_a_filter_around_a_subquery() -> None:
    text = filled("SELECT s.t.a FROM s.t QUALIFY row_number() OVER (PARTITION BY s.t.a ORDER BY b) = 1")
    assert "QUALIFY" not in text and "s.t" not in text
    assert text.count("R0 AS `t`") == 1 and text.count("`t`.a") == 2
    assert names(text) == ["R0"], "what is run is a query that reads the relation and nothing else"


def test_a_reference_that_fixes_its_version_says_so() -> None:
    first, second = read_query("SELECT * FROM a VERSION AS OF 1 JOIN b", {}).references
    assert first.is_pinned and not second.is_pinned


def test_a_forced_kind_belongs_to_the_reference_at_its_place() -> None:
    first, second = read_query("SELECT * FROM `a` JOIN `b`", {23: "seed"}).references
    assert (first.kind, second.kind) == (None, "seed")


def test_qualify_keeps_the_kinds_of_references() -> None:
    query = read_query("SELECT a FROM `x` QUALIFY row_number() OVER (ORDER BY a) = 1", {14: "model"})
    assert [s.kind for s in query.slots] == ["model"]


@pytest.mark.parametrize(
    ("sql", "kind", "message"),
    [
        ("", "empty", "there is no query"),
        ("-- only a comment\n/* and another */", "empty", "there is no query"),
        (";", "empty", "there is no query"),
        ("SELECT 1; SELECT 2", "many", "a second statement begins here"),
        ("SELECT 1;; SELECT 2;", "many", "a second statement begins here"),
        ("DELETE FROM t", "not a select", "a model is one SELECT; this is a DELETE"),
        ("INSERT INTO t SELECT 1", "not a select", "a model is one SELECT; this is an INSERT"),
        ("CREATE TABLE x AS SELECT 1", "not a select", "a model is one SELECT; this is a CREATE"),
        ("DROP TABLE x", "not a select", "a model is one SELECT; this is a DROP"),
        ("SELECT FROM WHERE", "parse", "the SQL does not parse: "),
        ("SELECT (1", "parse", "the SQL does not parse: "),
        ("SELECT 'abc", "parse", "this ' is never closed"),
        ("SELECT `abc", "parse", "this ` is never closed"),
        ("SELECT * FROM IDENTIFIER('t')", "parse", "IDENTIFIER(…) names a table that cannot be known"),
        ("SELECT * FROM values", "parse", "the SQL does not parse: something is missing here"),
        ("SELECT a /* never closed", "parse", "this comment is never closed"),
    ],
)
def test_what_is_not_one_query_is_refused(sql: str, kind: str, message: str) -> None:
    with pytest.raises(QueryProblem) as caught:
        read_query(sql, {})
    assert caught.value.kind == kind
    assert caught.value.message.startswith(message)
    assert "<" not in caught.value.message
    assert 0 <= caught.value.start <= max(1, len(sql))


@pytest.mark.parametrize("sql", ["SELECT 1;", "SELECT 1 ; -- done\n", "SELECT 1;;;", "(SELECT 1)"])
def test_one_statement_may_end_in_semicolons(sql: str) -> None:
    assert names(sql) == []


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("SELECT a,\n  b c d\nFROM t", "d"),
        ("SELECT 1;\nDELETE FROM t", "DELETE"),
        ("SELECT a FROM t WHERE 'x", "'"),
    ],
)
def test_a_problem_stands_where_it_is(sql: str, word: str) -> None:
    with pytest.raises(QueryProblem) as caught:
        read_query(sql, {})
    assert sql[caught.value.start : caught.value.end] == word


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT current_date FROM t", [("current_date", 7)]),
        ("SELECT current_date() FROM t", [("current_date", 7)]),
        ("SELECT rand(), uuid() FROM t", [("rand", 7), ("uuid", 15)]),
        ("SELECT unix_timestamp() FROM t", [("unix_timestamp", 7)]),
        ("SELECT unix_timestamp(ts) FROM t", []),
        ("SELECT t.rand, t.current_date FROM t", []),
        ("SELECT rand FROM t", []),
        ("SELECT 'now()' FROM t -- now()", []),
    ],
)
def test_functions_of_time_and_chance_are_seen(sql: str, expected: list[tuple[str, int]]) -> None:
    assert list(read_query(sql, {}).volatile) == expected


def test_a_query_survives_the_cache() -> None:
    query = read_query("SELECT s.t.a, now() FROM s.t JOIN u VERSION AS OF 3", {15: "model"})
    assert codec.decode(Query, codec.encode(query)) == query


def test_filling_tells_where_each_copied_part_came_from() -> None:
    text = "SELECT s.t.a FROM s.t WHERE b"
    slots = (Reference(("s", "t"), 18, 21, "t", ((7, 10),)),)
    sql, copied = fill_references(text, slots, {0: "`lake`.`dev`.`t`"})
    assert sql == "SELECT `t`.a FROM `lake`.`dev`.`t` AS `t` WHERE b"
    for at, origin, length in copied:
        assert sql[at : at + length] == text[origin : origin + length]
    assert copied[-1] == (sql.index(" WHERE"), text.index(" WHERE"), len(" WHERE b"))


def test_filling_without_references_copies_everything() -> None:
    assert fill_references("SELECT 1", (), {}) == ("SELECT 1", [(0, 0, 8)])
