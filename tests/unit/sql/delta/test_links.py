"""By which columns the sources of a query are joined, so that few rows of one can belong to a change of another."""

from __future__ import annotations

import pytest

from sqb.sql.delta.operators.model import Select
from support.pieces import facts_of

TABLES = {
    "f": {"k": "int", "g": "int", "n": "bigint", "s": "string", "d": "date"},
    "a": {"k": "int", "g": "int", "s": "string", "t": "timestamp"},
    "b": {"k": "int", "n": "bigint", "d": "date"},
}
F_A = {"f.k by a.g", "a.g by f.k"}

LINKS = [
    ("SELECT f.n FROM raw.f AS f JOIN raw.a AS a ON f.k = a.g", F_A),
    ("SELECT f.n FROM raw.f AS f, raw.a AS a WHERE (f.k = a.g) AND f.n > 1", F_A),
    # Without a source before the column.
    ("SELECT f.n FROM raw.f AS f, raw.b AS b WHERE g = b.k", {"f.g by b.k", "b.k by f.g"}),
    # Whole numbers of two types, days.
    ("SELECT f.n FROM raw.f AS f JOIN raw.b AS b ON f.k = b.n", {"f.k by b.n", "b.n by f.k"}),
    ("SELECT f.n FROM raw.f AS f JOIN raw.b AS b ON f.d = b.d", {"f.d by b.d", "b.d by f.d"}),
    # What LEFT JOIN finds no row for stays: the left side is read by the right one only where they match.
    ("SELECT f.n FROM raw.f AS f LEFT JOIN raw.a AS a ON f.k = a.g", {"a.g by f.k", "f.k by a.g where matched"}),
    ("SELECT f.n FROM raw.f AS f LEFT ANTI JOIN raw.a AS a ON f.k = a.g", {"a.g by f.k", "f.k by a.g where matched"}),
    (
        "SELECT f.n FROM raw.f AS f LEFT JOIN raw.a AS a ON a.g = f.k JOIN raw.b AS b ON a.k = b.k",
        {"a.g by f.k", "f.k by a.g where matched"},
    ),
    (
        "SELECT f.n FROM raw.f AS f WHERE NOT EXISTS (SELECT 1 FROM raw.a AS a WHERE a.g = f.k AND a.k > f.g)",
        {"a.g by f.k", "f.k by a.g where matched"},
    ),
    ("SELECT f.n FROM raw.f AS f WHERE f.n > (SELECT max(f.n) FROM raw.f AS f, raw.b AS b WHERE f.k = b.k)", set()),
    ("SELECT f.n FROM raw.f AS f WHERE EXISTS (SELECT 1 FROM raw.b AS b LEFT JOIN raw.a AS a ON a.k = f.k"
     " WHERE b.k > f.g)", set()),
    ("SELECT f.n FROM raw.f AS f WHERE EXISTS (SELECT 1 FROM raw.b AS b WHERE b.k = f.k OR b.k = f.g)", set()),
    # By way of a third column that both equal, in another source or around two subqueries.
    (
        "SELECT f.n FROM raw.f AS f JOIN raw.a AS a ON a.k = f.k JOIN raw.b AS b ON b.k = a.k",
        {f"{one} by {other}" for one in ("f.k", "a.k", "b.k") for other in ("f.k", "a.k", "b.k") if one != other},
    ),
    (
        "SELECT f.n FROM raw.f AS f JOIN raw.b AS b ON b.k = f.k"
        " WHERE EXISTS (SELECT 1 FROM raw.a AS a WHERE a.g = f.k)",
        {
            "f.k by b.k", "b.k by f.k", "a.g by f.k", "a.g by b.k",
            "f.k by a.g where matched", "b.k by a.g where matched",
        },
    ),
    (
        "SELECT f.n FROM raw.f AS f LEFT JOIN raw.a AS a ON a.g = f.k LEFT JOIN raw.b AS b ON b.k = f.k",
        {
            "a.g by f.k", "b.k by f.k", "f.k by a.g where matched", "f.k by b.k where matched",
            "a.g by b.k where matched", "b.k by a.g where matched",
        },
    ),
    # Not by way of another column of the same source, nor of a row that may not be there.
    (
        "SELECT f.n FROM raw.f AS f JOIN raw.a AS a ON a.k = f.k JOIN raw.b AS b ON b.k = a.g",
        {"f.k by a.k", "a.k by f.k", "a.g by b.k", "b.k by a.g"},
    ),
    (
        "SELECT f.n FROM raw.f AS f LEFT JOIN raw.a AS a ON a.g = f.k LEFT JOIN raw.b AS b ON b.k = a.g",
        {"a.g by f.k", "f.k by a.g where matched"},
    ),
    (
        "SELECT f.n FROM raw.f AS f, raw.b AS b"
        " WHERE NOT EXISTS (SELECT 1 FROM raw.a AS a WHERE a.g = f.k AND a.g = b.k)",
        {"a.g by f.k", "a.g by b.k", "f.k by a.g where matched", "b.k by a.g where matched"},
    ),
    (
        "WITH q AS (SELECT k FROM raw.f), p AS (SELECT x.k AS y, z.k AS z FROM q AS x JOIN q AS z ON x.k < z.k)"
        " SELECT p.y FROM p JOIN raw.a AS a ON a.k = p.y JOIN raw.b AS b ON b.k = p.z",
        {"f.k by a.k", "a.k by f.k", "f.k by b.k", "b.k by f.k"},
    ),
    # By way of queries that only hand columns on.
    (
        "WITH q AS (SELECT *, n + 1 AS m FROM raw.f WHERE n > 1), p AS (SELECT g AS z FROM raw.a)"
        " SELECT q.n FROM q JOIN p ON q.k = p.z",
        F_A,
    ),
    (
        "SELECT q.n FROM (SELECT DISTINCT f.k, a.g AS y, f.n FROM raw.f AS f JOIN raw.a AS a ON f.s = a.s) AS q"
        " JOIN raw.b AS b ON b.k = q.y",
        {"a.g by b.k", "b.k by a.g"},
    ),
    ("SELECT q.n FROM (SELECT k + 1 AS k, n FROM raw.f) AS q JOIN raw.b AS b ON b.k = q.k", set()),
    ("SELECT q.n FROM (SELECT k, max(n) AS n FROM raw.f GROUP BY k) AS q JOIN raw.b AS b ON b.k = q.k", set()),
    ("SELECT q.n FROM (SELECT a.k, f.n FROM raw.f AS f LEFT JOIN raw.a AS a ON a.k = f.k) AS q JOIN raw.b AS b"
     " ON b.k = q.k", set()),
    ("WITH q (k, n) AS (SELECT g, n FROM raw.f) SELECT q.n FROM q JOIN raw.b AS b ON b.k = q.k", set()),
    # Other rows than those of equal values matter.
    ("SELECT f.n FROM raw.f AS f JOIN raw.a AS a ON f.k <=> a.g", set()),
    ("SELECT f.n FROM raw.f AS f JOIN raw.a AS a ON f.k = a.g OR f.n > 1", set()),
    ("SELECT f.n FROM raw.f AS f JOIN raw.a AS a ON NOT (f.k = a.g)", set()),
    ("SELECT f.n FROM raw.f AS f JOIN raw.a AS a ON f.k = a.g + 1", set()),
    ("SELECT f.n FROM raw.f AS f RIGHT JOIN raw.a AS a ON f.k = a.g", set()),
    ("SELECT f.n FROM raw.f AS f JOIN raw.a AS a ON f.k = a.g FULL JOIN raw.b AS b ON b.k = a.k", set()),
    # '1' and '01' both equal 1, and lie elsewhere; a day is a moment in some time zone.
    ("SELECT f.n FROM raw.f AS f JOIN raw.a AS a ON f.k = a.s", set()),
    ("SELECT f.n FROM raw.f AS f JOIN raw.a AS a ON f.s = a.s", set()),
    ("SELECT f.n FROM raw.f AS f JOIN raw.a AS a ON f.d = a.t", set()),
]  # fmt: skip


def describe_links(sql: str) -> set[str]:
    template, facts = facts_of(sql, TABLES)
    assert facts.tree is not None
    block = facts.tree.operators[-1].block
    assert isinstance(block, Select)

    def name(origin: tuple[int, str]) -> str:
        return f"{template.names[origin[0]].removeprefix('raw.')}.{origin[1]}"

    return {
        f"{name(link.origin)} by {name(link.by_origin)}{' where matched' if link.only_matched else ''}"
        for link in block.links
    }


@pytest.mark.parametrize(("sql", "expected"), LINKS)
def test_links(sql: str, expected: set[str]) -> None:
    assert describe_links(sql) == expected
