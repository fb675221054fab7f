"""Columns of a list that stand alone: the query without them gives the same rows, with the same other columns."""

from __future__ import annotations

import pytest

from sqb.cache import codec
from sqb.sql.analysis.parse import read_query
from sqb.sql.analysis.query import Query


def alone(text: str) -> str | None:
    parts = read_query(text, {}).columns
    return " ".join(name for name, _ in parts.independent) if parts is not None else None


CASES = [
    ("SELECT a, b FROM t", "a b"),
    ("SELECT a, t.b, upper(c) AS d, `odd name` FROM t", "a b d odd name"),
    ("WITH x AS (SELECT a, b FROM t) SELECT a, b AS c FROM x", "a c"),
    ("SELECT *, a + 1 AS n FROM t", "n"),
    ("SELECT a, sum(b) AS s, count(*) AS n FROM t GROUP BY a", "a n s"),
    ("SELECT a, row_number() OVER (PARTITION BY b ORDER BY c) AS n FROM t", "a n"),
    ("SELECT a, sum(b) OVER (PARTITION BY c) AS s FROM t", "a s"),
    ("SELECT a, cast(b AS struct<x: int, y: int>) AS s, array(1, 2)[0] AS f FROM t", "a f s"),
    ("SELECT a, b FROM t WHERE c > 1 ORDER BY d", "a b"),
    ("SELECT a, CASE WHEN b > 1 THEN 'x' ELSE 'y' END AS c FROM t", "a c"),
    # An aggregate without a group makes one row of everything.
    ("SELECT 1 AS one, max(a) AS m FROM t", "one"),
    ("SELECT a, max(b) - sum(c) OVER () AS n FROM t", "a"),
    # A name that is used elsewhere may mean the column.
    ("SELECT a AS x, x + 1 AS y FROM t", "y"),
    ("SELECT a, b AS c FROM t ORDER BY c", "a"),
    ("SELECT a AS k, count(*) AS n FROM t GROUP BY k", "n"),
    ("SELECT s.a AS a, a + 1 AS b FROM t", "b"),
    ("SELECT a FROM t ORDER BY a", "a"),
    # Functions that make rows, ask other tables or are not known.
    ("SELECT a, explode(b) AS e FROM t", "a"),
    ("SELECT a, (SELECT max(c) FROM u) AS m FROM t", "a"),
    ("SELECT a, my_function(b) AS m, rand() AS r, `upper`(c) AS u FROM t", "a"),
    # Where the place of a column counts, or whole rows do.
    ("SELECT DISTINCT a, b FROM t", None),
    ("SELECT a FROM t UNION ALL SELECT b FROM u", None),
    ("SELECT a, count(*) AS n FROM t GROUP BY 1", None),
    ("SELECT a, count(*) AS n FROM t GROUP BY ALL", None),
    ("SELECT a, b FROM t ORDER BY 2", None),
    ("SELECT a, b FROM t QUALIFY row_number() OVER (ORDER BY a) = 1", None),
    ("SELECT a AS x, b AS x FROM t", ""),
    ("SELECT a, a FROM t", None),
    ("SELECT a, b FROM t ORDER BY c LIMIT 5", None),
    ("SELECT 1 AS one", None),
    ("FROM t SELECT a", None),
]


@pytest.mark.parametrize(("text", "names"), CASES, ids=[text for text, _ in CASES])
def test_columns_that_stand_alone(text: str, names: str | None) -> None:
    assert alone(text) == names


SAME_REST = [
    ("SELECT a FROM t", "SELECT a, b FROM t", True),
    ("SELECT a, b FROM t", "select b , a\nfrom t -- same", True),
    ("SELECT a FROM t", "SELECT a FROM t WHERE a > 1", False),
    ("SELECT a FROM t", "SELECT a, explode(b) AS e FROM t", False),
    ("SELECT a FROM t", "SELECT a, max(b) AS m FROM t", False),
    ("SELECT a, rand() AS r, b FROM t", "SELECT rand() AS r FROM t", True),
    ("SELECT rand() AS r, rand() AS q FROM t", "SELECT rand() AS r FROM t", False),
    ("WITH x AS (SELECT a FROM t) SELECT a FROM x", "WITH x AS (SELECT a, b FROM t) SELECT a FROM x", False),
]


@pytest.mark.parametrize(("one", "other", "same"), SAME_REST)
def test_everything_else(one: str, other: str, same: bool) -> None:
    first, second = (read_query(text, {}).columns for text in (one, other))
    assert first is not None and second is not None
    assert (first.rest == second.rest) is same


def test_the_parts_survive_the_cache() -> None:
    for text in ("SELECT a, b FROM t", "SELECT DISTINCT a FROM t"):
        query = read_query(text, {})
        assert codec.decode(Query, codec.encode(query)) == query
