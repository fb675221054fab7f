"""Sums of fractions: what the types of columns tell of them before anything runs."""

from __future__ import annotations

import pytest

from sqb.sql.delta.proposal import propose
from support.pieces import facts_of

TABLES = {"f": {"id": "int", "k": "int", "x": "double", "n": "bigint", "d": "decimal(10,2)"}}


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT max(s) AS m FROM (SELECT k, sum(x) AS s FROM raw.f GROUP BY k) GROUP BY s", "sum(x) adds up values"),
        ("SELECT max(s) AS m FROM (SELECT k, sum(t.x) AS s FROM raw.f AS t GROUP BY k) GROUP BY s", "sum(t.x) adds up"),
        ("SELECT max(s) AS m FROM (SELECT k, avg(n) AS s FROM raw.f GROUP BY k) GROUP BY s", "avg(n) adds up values"),
        (
            "SELECT max(s) AS m FROM (SELECT k, sum(y) AS s FROM (WITH w AS (SELECT x AS y, k FROM raw.f)"
            " SELECT y, k FROM w) GROUP BY k) GROUP BY s",
            "sum(y) adds up values of type double",
        ),
        (
            "SELECT max(s) AS m FROM (SELECT k, sum(t.x) AS s FROM raw.f AS t LATERAL VIEW explode(array(1)) AS e"
            " GROUP BY k) GROUP BY s",
            "sum(t.x) adds up",
        ),
        (
            "SELECT max(s) AS m FROM (SELECT k, sum(x) AS s FROM (SELECT k, n AS x FROM raw.f) AS t LATERAL VIEW"
            " explode(array(1)) AS e GROUP BY k) GROUP BY s",
            None,
        ),
        ("SELECT max(s) AS m FROM (SELECT k, sum(n) AS s FROM raw.f GROUP BY k) GROUP BY s", None),
        # Types of expressions, as they follow from those of columns.
        (
            "SELECT max(s) AS m FROM (SELECT k, sum(CASE WHEN k > 1 THEN x ELSE 0 END) AS s FROM raw.f GROUP BY k)"
            " GROUP BY s",
            "sum(CASE WHEN k > 1 THEN x ELSE 0 END) adds up values of type double",
        ),
        (
            "SELECT max(s) AS m FROM (SELECT k, sum(CAST(x AS INT) + 1) AS s FROM raw.f GROUP BY k) GROUP BY s",
            None,
        ),
        (
            "SELECT max(s) AS m FROM (SELECT k, sum(DISTINCT x) AS s FROM raw.f GROUP BY k) GROUP BY s",
            "sum(DISTINCT x) adds up values of type double",
        ),
        (
            "SELECT max(s) AS m FROM (SELECT y, sum(y) AS s FROM (SELECT k, max(x) AS y FROM raw.f GROUP BY k)"
            " GROUP BY ROLLUP (y)) GROUP BY s",
            "sum(y) adds up values of type double",
        ),
        (
            "SELECT max(s) AS m FROM (SELECT k, sum(x * 2) OVER (PARTITION BY k) AS s FROM raw.f) GROUP BY s",
            "sum(x * 2) adds up values of type double",
        ),
        ("SELECT max(s) AS m FROM (SELECT k, sum(n * 2) OVER (PARTITION BY k) AS s FROM raw.f) GROUP BY s", None),
        ("SELECT max(s) AS m FROM (SELECT k, sum(d) AS s FROM raw.f GROUP BY k) GROUP BY s", None),
    ],
)
def test_the_plan_knows_which_sums_cannot_be_evaluated_again(sql: str, why: str | None) -> None:
    facts = facts_of(sql, TABLES)[1]
    assert facts.tree is not None
    obstacle = propose(facts.tree, frozenset({0})).obstacle
    assert (obstacle is None) == (why is None) and (why is None or obstacle is None or obstacle.why.startswith(why))
