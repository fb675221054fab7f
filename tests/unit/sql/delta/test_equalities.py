"""Which equalities a join's condition cannot do without, and what IN compares: rules rest on both."""

from __future__ import annotations

import pytest

from sqb.sql.delta.operators.model import Select
from support.pieces import facts_of

TABLES = {
    "f": {"k": "int", "g": "int", "flag": "boolean", "end": "int", "s": "string", "st": "struct<a:int>"},
    "e": {"k": "int", "g": "int", "flag": "boolean", "end": "int", "s": "string", "st": "struct<a:int>"},
}
EQUALITIES = [
    ("f.k = e.k", ["f.k = e.k"]),
    ("e.k == f.k AND f.g <=> e.g", ["f.k = e.k", "f.g = e.g"]),
    ("f.k = e.k AND f.g < e.g AND f.s IS NOT NULL", ["f.k = e.k"]),
    ("f.st.a = e.st.a AND f.k = e.st.a", ["f.st.a = e.st.a", "f.k = e.st.a"]),
    ("f.k + 1 = coalesce(e.k, 0)", ["f.k + 1 = coalesce(e.k, 0)"]),
    # In brackets, alone or together.
    ("(f.k = e.k)", ["f.k = e.k"]),
    ("((f.k) = (e.k)) AND (f.g = e.g)", ["(f.k) = (e.k)", "f.g = e.g"]),
    ("(f.k = e.k AND (f.g = e.g AND f.s = e.s))", ["f.k = e.k", "f.g = e.g", "f.s = e.s"]),
    # Where OR binds them, none has to hold.
    ("f.k = e.k AND f.g = e.g OR f.s = e.s", []),
    ("f.flag OR f.k = e.k", []),
    ("f.k = e.k AND (f.g = e.g OR f.s = e.s)", ["f.k = e.k"]),
    # An AND that belongs to something else.
    ("f.k BETWEEN 0 AND 5 AND f.g = e.g", ["f.g = e.g"]),
    ("e.flag BETWEEN false AND f.k = e.k", []),
    (
        "CASE WHEN f.flag AND f.g > 0 THEN f.k END = e.k AND f.g = e.g",
        ["CASE WHEN f.flag AND f.g > 0 THEN f.k END = e.k", "f.g = e.g"],
    ),
    ("f.end = e.end AND f.g = e.g", ["f.end = e.end", "f.g = e.g"]),
    # An equality whose answer is asked for.
    ("NOT f.k = e.k", []),
    ("NOT (f.k = e.k AND f.g = e.g)", []),
    ("! f.k = e.k", []),
    ("coalesce(f.k = e.k, false)", []),
    ("f.flag = e.flag IS NULL", []),
    ("f.flag = e.flag IN (true)", []),
    ("f.flag = e.k > 1", []),
    ("f.k = e.k = f.flag", []),
]


@pytest.mark.parametrize(("condition", "equal"), EQUALITIES, ids=[condition for condition, _ in EQUALITIES])
def test_equalities_of_a_condition(condition: str, equal: list[str]) -> None:
    block = read_block(f"SELECT f.k, e.k FROM raw.f AS f FULL JOIN raw.e AS e ON {condition}")
    assert [f"{left} = {right}" for left, right in block.sources[1].equal] == equal


TESTED = [
    ("SELECT f.k FROM raw.f AS f WHERE f.k IN (SELECT e.k FROM raw.e AS e)", ("f.k",)),
    ("SELECT f.k FROM raw.f AS f WHERE f.g = 1 AND NOT k NOT IN (SELECT e.k FROM raw.e AS e)", ("k",)),
    ("SELECT f.k FROM raw.f AS f WHERE (f.k, f.g) IN (SELECT e.k, e.g FROM raw.e AS e)", ("f.k", "f.g")),
    ("SELECT f.k FROM raw.f AS f WHERE coalesce(f.k IN (SELECT e.k FROM raw.e AS e), true)", ("f.k",)),
    ("SELECT f.k FROM raw.f AS f WHERE st.a IN (SELECT e.st.a FROM raw.e AS e)", ("st.a",)),
    ("SELECT f.k IN (SELECT e.k FROM raw.e AS e) FROM raw.f AS f", ("f.k",)),
    ("SELECT DISTINCT f.g, f.k IN (SELECT e.k FROM raw.e AS e) FROM raw.f AS f", ("f.k",)),
    ("SELECT CASE WHEN f.k IN (SELECT e.k FROM raw.e AS e) THEN 1 END FROM raw.f AS f", ("f.k",)),
    # To Spark IN asks for the answer of the comparison before it.
    ("SELECT f.k FROM raw.f AS f WHERE f.flag = f.flag IN (SELECT e.flag FROM raw.e AS e)", ()),
    ("SELECT f.k FROM raw.f AS f WHERE f.g = 1 OR f.k < f.g NOT IN (SELECT e.flag FROM raw.e AS e)", ()),
    ("SELECT f.g > f.k IN (SELECT e.flag FROM raw.e AS e) FROM raw.f AS f", ()),
]


@pytest.mark.parametrize(("sql", "tested"), TESTED, ids=[sql for sql, _ in TESTED])
def test_what_is_compared_by_in(sql: str, tested: tuple[str, ...]) -> None:
    assert read_block(sql).subqueries[0].tested == tested


def read_block(sql: str) -> Select:
    facts = facts_of(sql, TABLES)[1]
    assert facts.tree is not None, facts.why
    return next(o.block for o in reversed(facts.tree.operators) if o.block is not None)
