"""QUALIFY as a filter around a subquery: the author's text stays, and only what stands around the condition changes."""

from __future__ import annotations

import pytest

from sqb.sql.analysis.parse import read_query

TEXTS = [
    # What a generator would write otherwise than Spark reads it.
    (
        "SELECT date_format(d, 'YYYY') AS x, 'it''s' AS y FROM t QUALIFY row_number() OVER (ORDER BY d) = 1",
        "SELECT `x`, `y` FROM (SELECT date_format(d, 'YYYY') AS x, 'it''s' AS y,"
        " (row_number() OVER (ORDER BY d) = 1) AS __sqb_qualified FROM t ) AS __sqb_rows WHERE __sqb_qualified",
    ),
    # DISTINCT, ORDER BY and LIMIT come after the filter, a named window before it; comments and inner queries.
    (
        "SELECT DISTINCT a, b IS DISTINCT FROM c AS e FROM t WHERE a IN (SELECT x FROM u QUALIFY rank()"
        " OVER (ORDER BY x)"
        " = 1) -- one\nQUALIFY row_number() OVER w = 1 WINDOW w AS (PARTITION BY a ORDER BY b) ORDER BY a LIMIT 3",
        "SELECT DISTINCT `a`, `e` FROM (SELECT a, b IS DISTINCT FROM c AS e, (row_number() OVER w = 1)"
        " AS __sqb_qualified"
        " FROM t WHERE a IN (SELECT `x` FROM (SELECT x, (rank() OVER (ORDER BY x) = 1) AS __sqb_qualified FROM u )"
        " AS __sqb_rows WHERE __sqb_qualified) -- one\nWINDOW w AS (PARTITION BY a ORDER BY b)) AS __sqb_rows"
        " WHERE __sqb_qualified ORDER BY a LIMIT 3",
    ),
    (
        "WITH c AS (SELECT * FROM t QUALIFY row_number() OVER (PARTITION BY a ORDER BY b) = 1) SELECT count(*) FROM c",
        "WITH c AS (SELECT * EXCEPT (__sqb_qualified) FROM (SELECT *, (row_number() OVER (PARTITION BY"
        " a ORDER BY b) = 1)"
        " AS __sqb_qualified FROM t ) AS __sqb_rows WHERE __sqb_qualified) SELECT count(*) FROM c",
    ),
    (
        "SELECT a FROM t UNION ALL SELECT a FROM u QUALIFY count(*) OVER (PARTITION BY a) > 1 UNION ALL SELECT 1",
        "SELECT a FROM t UNION ALL SELECT `a` FROM (SELECT a, (count(*) OVER (PARTITION BY a) > 1) AS __sqb_qualified"
        " FROM u ) AS __sqb_rows WHERE __sqb_qualified UNION ALL SELECT 1",
    ),
    (
        "SELECT a, max(b) FROM t GROUP BY a HAVING count(*) > 1\nQUALIFY rank() OVER (ORDER BY a) <"
        " (SELECT max(z) FROM q"
        " QUALIFY row_number() OVER (ORDER BY z) = 1)",
        "SELECT * EXCEPT (__sqb_qualified) FROM (SELECT a, max(b), (rank() OVER (ORDER BY a) < (SELECT * EXCEPT"
        " (__sqb_qualified) FROM (SELECT max(z), (row_number() OVER (ORDER BY z) = 1) AS __sqb_qualified FROM q )"
        " AS __sqb_rows WHERE __sqb_qualified)) AS __sqb_qualified FROM t GROUP BY a HAVING count(*) >"
        " 1\n) AS __sqb_rows"
        " WHERE __sqb_qualified",
    ),
    ("SELECT a FROM (SELECT qualify AS a FROM t)", "SELECT a FROM (SELECT qualify AS a FROM t)"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "runs"), TEXTS)
def test_the_text_around_the_condition_changes(sql: str, runs: str) -> None:
    read = read_query(sql, {}).runnable
    assert " ".join(read.split()) == " ".join(runs.split())
    # Comments end with their lines.
    assert read.count("\n") == sql.count("\n")
