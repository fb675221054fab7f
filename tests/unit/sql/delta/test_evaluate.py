"""What an evaluation asks of tables: rows that came and went unchanged are read only where they add up to nothing."""

from __future__ import annotations

import pytest

from sqb.sql.delta.evaluate import Evaluation
from sqb.sql.delta.proposal import propose
from sqb.sql.delta.skeleton.model import SLOT
from support.delta_engine import DuckStates, DuckTables, fill_tables, list_state_operators, open_engine
from support.pieces import facts_of

TABLES = {"f": {"k": "int", "n": "bigint"}, "d": {"k": "int", "s": "string"}}
ROWS = {"f": [(1, 10), (1, 20), (2, 5)], "d": [(1, "a"), (2, "b")]}
CHANGED = {"f": [(1, 10), (2, 5), (2, 7)], "d": [(1, "a"), (2, "c")]}


class RecordingTables(DuckTables):
    """Tables that remember how their changes were read."""

    asked: list[str]

    def compute_delta(self, slot: int) -> str:
        self.asked.append(f"net {self.names[slot]}")
        return super().compute_delta(slot)

    def read_changes(self, slot: int) -> str:
        self.asked.append(f"as they are {self.names[slot]}")
        return super().read_changes(slot)


@pytest.mark.parametrize(
    ("sql", "slots", "asked"),
    [
        ("SELECT k, sum(n) AS s, count(*) AS c FROM raw.f GROUP BY k", {0}, {"as they are f"}),
        ("SELECT k, bool_and(n > 1) AS s, avg(n) AS c FROM raw.f GROUP BY k", {0}, {"as they are f"}),
        # Every row that came and went would seem to be the extreme that leaves its group.
        ("SELECT k, max(n) AS s FROM raw.f GROUP BY k", {0}, {"net f"}),
        ("SELECT k, sum(n) AS s, min(n) AS m FROM raw.f GROUP BY k", {0}, {"net f"}),
        (
            "SELECT d.s, sum(f.n) AS s FROM raw.f AS f JOIN raw.d AS d ON f.k = d.k GROUP BY d.s",
            {0, 1},
            {"as they are f", "as they are d"},
        ),
        (
            "SELECT d.s, max(f.n) AS s FROM raw.f AS f JOIN raw.d AS d ON f.k = d.k GROUP BY d.s",
            {0, 1},
            {"net f", "net d"},
        ),
        # Rows on the other side of an outer join that a change touches: those of unchanged rows would be too many.
        (
            "SELECT f.k, count(*) AS s FROM raw.f AS f LEFT JOIN raw.d AS d ON f.k = d.k GROUP BY f.k",
            {0, 1},
            {"as they are f", "net d"},
        ),
        ("SELECT k, n FROM raw.f WHERE n > 6", {0}, {"net f"}),
        ("SELECT DISTINCT k FROM raw.f", {0}, {"net f"}),
    ],
)
def test_changes_are_net_where_they_are_not_only_added_up(sql: str, slots: set[int], asked: set[str]) -> None:
    template, facts = facts_of(sql, TABLES)
    assert facts.tree is not None
    proposal = propose(facts.tree, frozenset(slots), list_state_operators(facts.tree))
    with open_engine() as engine:
        fill_tables(engine, TABLES, ROWS, CHANGED)
        tables = RecordingTables(engine, template.names, frozenset(slots))
        tables.asked = []
        text = template.render(lambda index: f"{SLOT}{index}")
        states = DuckStates(engine, text, facts.tree)
        states.evaluation = Evaluation(text, facts.tree, proposal, engine, tables, states)
        states.evaluation.compute_change()
    assert set(tables.asked) == asked
