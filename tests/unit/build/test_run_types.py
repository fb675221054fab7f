"""What a plan says of how much there is to follow, and why something is rebuilt, without Spark."""

from __future__ import annotations

from typing import Any

import pytest

from sqb.build.incremental.cost import format_change_size
from sqb.build.incremental.refresh import NotIncremental, TableSlot, choose_keys
from sqb.names import Relation
from sqb.project.config.settings import CostGate
from support.pieces import facts_of

TABLES = {"o": {"id": "int", "cid": "int"}, "c": {"id": "int", "name": "string"}}


class _State:
    def __init__(self, rows: int) -> None:
        self.rows = rows


def hole(index: int, name: str, rows: int, changed: int | None = None, old: int | None = None) -> TableSlot:
    state: Any = _State(rows)
    return TableSlot(index, Relation("raw", name), f"raw.{name}", state, old, "changelog", changed)


def test_rows_that_were_rewritten_again_and_again_are_not_more_than_there_are() -> None:
    assert (
        CostGate(0, 0.3).explain_rebuild(5, 17) == "100% of 5 input rows were rewritten: over 30% a rebuild is faster"
    )
    assert format_change_size([hole(0, "o", 4, 17, old=1), hole(1, "c", 1)]) == "17 rows changed, 5 input rows"
    assert format_change_size([hole(0, "o", 1, 1, old=1)]) == "1 row changed, 1 input row"
    assert format_change_size([hole(0, "o", 4, None, old=1)]) == "an unknown number of rows changed, 4 input rows"


def test_a_key_that_does_not_restrict_what_changed_is_known_before_anything_runs() -> None:
    query = "SELECT o.id AS i, c.name AS n FROM raw.o AS o LEFT JOIN raw.c AS c ON o.cid < c.id"
    facts = facts_of(query, TABLES)[1]
    assert facts.kind == "keyed"
    assert choose_keys(facts, [hole(0, "o", 4, 1, old=1), hole(1, "c", 4)], "result")
    with pytest.raises(NotIncremental, match=r"^no key of the query restricts raw\.c$"):
        choose_keys(facts, [hole(0, "o", 4), hole(1, "c", 4, 1, old=1)], "result")
