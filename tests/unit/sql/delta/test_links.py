"""By which columns a source is read only where it belongs to a change of another, and what WHERE asks of it alone."""

from __future__ import annotations

import pytest

from sqb.sql.delta.operators.model import Select
from support.pieces import facts_of

TABLES = {
    "f": {"k": "int", "g": "int", "n": "bigint", "s": "string"},
    "a": {"k": "int", "g": "int", "s": "string"},
    "b": {"k": "int", "n": "bigint"},
}
F_A = {((0, "k"), (1, "g")), ((1, "g"), (0, "k"))}

LINKS = [
    ("SELECT f.n FROM raw.f AS f JOIN raw.a AS a ON f.k = a.g", F_A),
    ("SELECT f.n FROM raw.f AS f, raw.a AS a WHERE (f.k = a.g) AND f.n > 1", F_A),
    # Without a source before the column.
    ("SELECT f.n FROM raw.f AS f, raw.b AS b WHERE g = b.k", {((0, "g"), (1, "k")), ((1, "k"), (0, "g"))}),
    # What LEFT JOIN finds no row for stays: only the right side is read where it belongs to the left one.
    ("SELECT f.n FROM raw.f AS f LEFT JOIN raw.a AS a ON f.k = a.g", {((1, "g"), (0, "k"))}),
    (
        "SELECT f.n FROM raw.f AS f LEFT JOIN raw.a AS a ON a.g = f.k JOIN raw.b AS b ON a.k = b.k",
        {((1, "g"), (0, "k"))},
    ),
    # Other rows than those of equal values matter.
    ("SELECT f.n FROM raw.f AS f JOIN raw.a AS a ON f.k <=> a.g", set()),
    ("SELECT f.n FROM raw.f AS f JOIN raw.a AS a ON f.k = a.g OR f.n > 1", set()),
    ("SELECT f.n FROM raw.f AS f JOIN raw.a AS a ON NOT (f.k = a.g)", set()),
    ("SELECT f.n FROM raw.f AS f JOIN raw.a AS a ON f.k = a.g + 1", set()),
    ("SELECT f.n FROM raw.f AS f RIGHT JOIN raw.a AS a ON f.k = a.g", set()),
    ("SELECT f.n FROM raw.f AS f JOIN raw.a AS a ON f.k = a.g FULL JOIN raw.b AS b ON b.k = a.k", set()),
    # '1' and '01' both equal 1, and are not one value.
    ("SELECT f.n FROM raw.f AS f JOIN raw.a AS a ON f.k = a.s", set()),
    ("SELECT f.n FROM raw.f AS f JOIN raw.b AS b ON f.k = b.n", set()),
    ("SELECT f.n FROM raw.f AS f JOIN (SELECT k, g FROM raw.a) AS a ON f.k = a.g", set()),
]


def read_block(sql: str) -> Select:
    _, facts = facts_of(sql, TABLES)
    assert facts.tree is not None
    block = facts.tree.operators[-1].block
    assert block is not None
    return block


@pytest.mark.parametrize(("sql", "expected"), LINKS)
def test_links(sql: str, expected: set[tuple[tuple[int, str], tuple[int, str]]]) -> None:
    assert {(link.source, link.by) for link in read_block(sql).links} == expected


JOINED = "SELECT f.n FROM raw.f AS f JOIN raw.a AS a ON f.k = a.g LEFT JOIN raw.b AS b ON b.k = a.k WHERE "

FILTERS = [
    ("f.n > 1", ((0, "f.n > 1"),)),
    ("f.n BETWEEN 1 AND 2 AND a.s LIKE 'x and y' AND f.g = a.g",
     ((0, "f.n BETWEEN 1 AND 2"), (1, "a.s LIKE 'x and y'"))),
    ("(f.n = 1 OR f.g = 2) AND f.s = 'a' -- of AND\n AND a.s > 'b'",
     ((0, "(f.n = 1 OR f.g = 2)"), (0, "f.s = 'a'"), (1, "a.s > 'b'"))),
    ("f.n BETWEEN 1 AND 2 AND f.g BETWEEN 3 AND 4", ((0, "f.n BETWEEN 1 AND 2"), (0, "f.g BETWEEN 3 AND 4"))),
    ("f.n = 1 OR f.g = 2", ((0, "f.n = 1 OR f.g = 2"),)),
    ("f.n = 1 OR a.k = 2", ()),
    # What may be filled with NULLs, and what is asked of no source, or with another query.
    ("b.n = 1", ()),
    ("1 = 1 AND f.n > 2", ((0, "f.n > 2"),)),
    ("f.n > (SELECT max(x.k) FROM raw.a AS x)", ()),
    ("CASE WHEN f.n > 1 THEN true ELSE f.g > 1 END", ((0, "CASE WHEN f.n > 1 THEN true ELSE f.g > 1 END"),)),
]  # fmt: skip


@pytest.mark.parametrize(("where", "expected"), FILTERS)
def test_filters(where: str, expected: tuple[tuple[int, str], ...]) -> None:
    assert read_block(JOINED + where).filters == expected
