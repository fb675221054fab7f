"""How a node is brought up to date, decided from values alone."""

from __future__ import annotations

from sqb.names import Relation
from sqb.plan.observed import SnapshotChange
from sqb.plan.refresh import TableChange, choose_keys, measure_change
from sqb.project.config.settings import CostGate
from support.pieces import facts_of

TABLES = {"o": {"id": "int", "cid": "int"}, "c": {"id": "int", "name": "string"}}


def table(index: int, name: str, rows: int, changed: int | None = None, old: int | None = None) -> TableChange:
    return TableChange(index, Relation("raw", name), rows, old, SnapshotChange(), "changelog", changed)


def test_rows_that_were_rewritten_again_and_again_are_not_more_than_there_are() -> None:
    assert (
        CostGate(0, 0.3).explain_rebuild(5, 17) == "100% of 5 input rows were rewritten: over 30% a rebuild is faster"
    )
    assert str(measure_change((table(0, "o", 4, 17, old=1), table(1, "c", 1)))) == "17 rows changed, 5 input rows"
    assert str(measure_change((table(0, "o", 1, 1, old=1),))) == "1 row changed, 1 input row"
    assert str(measure_change((table(0, "o", 4, None, old=1),))) == "an unknown number of rows changed, 4 input rows"


def test_a_key_that_does_not_restrict_what_changed_is_known_before_anything_runs() -> None:
    query = "SELECT o.id AS i, c.name AS n FROM raw.o AS o LEFT JOIN raw.c AS c ON o.cid < c.id"
    facts = facts_of(query, TABLES)[1]
    assert facts.kind == "keyed"
    assert choose_keys(facts, (table(0, "o", 4, 1, old=1), table(1, "c", 4)), "result")
    assert not choose_keys(facts, (table(0, "o", 4), table(1, "c", 4, 1, old=1)), "result")
