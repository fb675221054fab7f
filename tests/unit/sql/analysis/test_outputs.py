"""The names of a query's columns, as far as its text alone tells them."""

from __future__ import annotations

import pytest

from sqb.sql.analysis.parse import read_query


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT a, t.b, c + 1 AS d, `odd name` FROM t", ("a", "b", "d", "odd name")),
        ("WITH x AS (SELECT 1 AS one) SELECT one FROM x", ("one",)),
        ("SELECT a FROM t UNION ALL SELECT b FROM t", ("a",)),
        ("(SELECT a FROM t) UNION SELECT b FROM t", ("a",)),
        ("SELECT a FROM t UNION BY NAME SELECT b FROM t", None),
        ("SELECT a, * FROM t", None),
        ("SELECT t.* FROM t", None),
        ("SELECT a, count(*) FROM t GROUP BY a", None),
        ("SELECT stack(2, a, b) AS (x, y) FROM t", None),
        ("VALUES (1)", None),
    ],
)
def test_names_of_columns(text: str, names: tuple[str, ...] | None) -> None:
    assert read_query(text, {}).outputs == names
