"""The CTEs at the top of a query."""

from __future__ import annotations

import pytest

from sqb.sql.text.table_names import find_top_level_ctes


@pytest.mark.parametrize(
    ("sql", "names", "rest"),
    [
        ("WITH a AS (SELECT 1) SELECT * FROM a", ("a",), " SELECT * FROM a"),
        ("with a as (select ')'), `b c`(x, y) as (select (1), 2)\nselect 3", ("a", "b c"), "\nselect 3"),
        ("-- first\nWITH a AS (WITH inner AS (SELECT 1) SELECT * FROM inner) (SELECT 1)", ("a",), " (SELECT 1)"),
        ("WITH RECURSIVE r(n) MAX RECURSION LEVEL 5 AS (SELECT 1) SELECT * FROM r", ("r",), " SELECT * FROM r"),
        ("WITH recursive AS (SELECT 1) SELECT * FROM recursive", ("recursive",), " SELECT * FROM recursive"),
        ("SELECT * FROM (WITH a AS (SELECT 1) SELECT * FROM a)", (), None),
        ("SELECT 1", (), None),
        ("", (), None),
        ("WITH a AS (SELECT 1", (), None),
    ],
)
def test_names_and_where_the_query_proper_begins(sql: str, names: tuple[str, ...], rest: str | None) -> None:
    top_level_ctes = find_top_level_ctes(sql)
    assert top_level_ctes.names == names
    assert sql[top_level_ctes.end :] == (sql if rest is None else rest)
