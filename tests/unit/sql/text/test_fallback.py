"""Queries that sqlglot does not read: models all the same, unless they are surely broken."""

from __future__ import annotations

import pytest

from sqb.cache import codec
from sqb.sql.analysis.canonical import recompute_canonical
from sqb.sql.analysis.parse import read_query
from sqb.sql.analysis.query import Query, QueryProblem
from support.unread import UNREAD


@pytest.mark.parametrize("text", UNREAD)
def test_it_is_a_query_that_says_why_it_was_not_read(text: str) -> None:
    query = read_query(text, {})
    assert query.unread is not None
    words, offset = query.unread
    assert words and 0 <= offset < len(text)
    assert query.runnable == text and query.slots == query.references
    assert codec.decode(Query, codec.encode(query)) == query
    assert {r.name for r in query.references} <= {"t", "u"}


@pytest.mark.parametrize("text", UNREAD)
def test_its_identity_does_not_see_comments_and_white_space(text: str) -> None:
    query = read_query(text, {})
    spaced = "-- a comment\n" + text.replace(" ", "\n /* x */ ") + "\n;"
    assert read_query(spaced, {}).canonical == query.canonical
    assert recompute_canonical(text, [(r.start, r.end) for r in query.references]) == query.canonical


def test_its_identity_sees_names_and_literals_and_not_the_case_of_keywords() -> None:
    def canonical(text: str) -> tuple[str, ...]:
        return read_query(text, {}).canonical

    query = "FROM t |> WHERE id > 1 AND name LIKE 'a' |> SELECT id AS end, sum(id) AS s"
    assert canonical(query) == canonical(
        "from `t` |> where `id` > 1 and name like 'a' |> select id as end, SUM(id) as s"
    )
    for old, new in (("id", "ID"), ("'a'", "'A'"), ("> 1", "> 2"), ("end", "End"), ("t |>", "u |>")):
        changed = read_query(query.replace(old, new, 1), {})
        before = read_query(query, {})
        names = [r.name for r in changed.references], [r.name for r in before.references]
        assert changed.canonical != before.canonical or names[0] != names[1], new


@pytest.mark.parametrize(
    ("text", "kind", "words", "at"),
    [
        ("FROM t |> WHERE (a", "parse", "this ( is never closed", "(a"),
        ("FROM t |> WHERE a)", "parse", "this ) closes nothing", ")"),
        ("FROM t |> WHERE a[1) ", "parse", "this ) closes nothing", ") "),
        ("FROM t |> WHERE", "parse", "something is missing after WHERE", "WHERE"),
        ("FROM t |> SELECT a,", "parse", "something is missing after ,", ","),
        ("FROM t |> SELECT a +", "parse", "something is missing after +", "+"),
        ("FROM t |> JOIN (SELECT a FROM) USING (a)", "parse", "something is missing after FROM", "FROM)"),
        ("FROM t |> SELECT f(a, )", "parse", "something is missing after ,", ", )"),
        ("SELECT a FROM", "parse", "something is missing here", "FROM"),
        ("SELECT a FROM t WHERE", "parse", "something is missing here", "WHERE"),
        ("SELECT a FROM WHERE b", "parse", "", ""),
        ("SELECT a FROM t WHERE GROUP BY a", "parse", "", ""),
        ("SELECT a, FROM t |> WHERE a", "parse", "something is missing after ,", ", FROM"),
        ("SELECT a,, b FROM t", "parse", "something is missing after ,", ",, b"),
        ("WITH x AS (SELECT 1), SELECT a FROM x", "parse", "something is missing after ,", ", SELECT a"),
        ("WITH RECURSIVE x AS (SELECT 1), y AS (VALUES (1)), select * FROM x", "parse", "missing after ,", ", select"),
        ("SELECT , a FROM t", "parse", "something is missing after SELECT", "SELECT"),
        ("SELECT FROM t WHERE a", "parse", "something is missing after SELECT", "SELECT"),
        ("SELECT a FROM t WHERE a NOT IN ()", "parse", "something is missing after IN", "IN ()"),
        ("SELECT cast(a AS integr) FROM t", "parse", "there is no type integr", "integr"),
        ("SELECT try_cast(f(a AS b) AS strin) FROM t", "parse", "there is no type strin", "strin"),
        ("SELECT a FORM t", "parse", "Unexpected token", "t"),
        ("SELECT a FROM t WERE b > 1", "parse", "Unexpected token", "b"),
        ("SELECT a b c FROM t", "parse", "Unexpected token", "c FROM"),
        ("SELECT a FROM t ORDER b", "parse", "Unexpected token", "b"),
        ("SELECT a FROM t GROUP b", "parse", "Unexpected token", "b"),
        ("SELEC a FROM t", "parse", "Unexpected token", ""),
        ("MAP a USING 'cat' FROM t", "parse", "Unexpected token", ""),
        ("SELECT a /* FROM t", "parse", "this comment is never closed", "/*"),
        ("SELECT a FROM t; SELECT 2", "many", "a second statement", "SELECT 2"),
        ("BEGIN SELECT 1; END", "many", "a second statement", "END"),
        ("DECLARE x INT", "not a select", "this is a DECLARE", "DECLARE"),
        ("EXECUTE IMMEDIATE 'SELECT 1'", "not a select", "this is an EXECUTE", "EXECUTE"),
        ("WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x", "not a select", "this is an INSERT", "INSERT"),
        ("WITH x AS (SELECT 1) DELETE FROM t WHERE a !> 1", "not a select", "this is a DELETE", "DELETE"),
        ("FROM t INSERT INTO u SELECT a !> 1", "not a select", "this is an INSERT", "INSERT"),
        ("WITH x AS (TABLE t) MERGE INTO t USING x ON a !> 1 WHEN MATCHED THEN DELETE", "not a select", "MERGE", "ME"),
        ("WITH x AS (SELECT 1) UPDATE t SET a = 1 !> 2", "not a select", "this is an UPDATE", "UPDATE"),
        ("FROM IDENTIFIER('a') |> WHERE b", "parse", "IDENTIFIER(…) names a table", "IDENTIFIER"),
    ],
)  # fmt: skip
def test_what_is_surely_broken_is_an_error_with_its_place(text: str, kind: str, words: str, at: str) -> None:
    with pytest.raises(QueryProblem) as caught:
        read_query(text, {})
    assert caught.value.kind == kind
    assert words in caught.value.message
    assert text[caught.value.start :].startswith(at)
