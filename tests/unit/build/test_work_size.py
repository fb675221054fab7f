"""How much Spark will read, from metadata: what is known is counted, and what is not is not taken for little."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sqb.build.observe.lake import LakeState
from sqb.build.work_size import build_row_counter, estimate_generated_rows, estimate_plan_rows
from sqb.compile.model import Project
from sqb.lake.port import TableState
from sqb.lake.storage.file_sources import Listing
from sqb.names import Relation
from sqb.plan.observed import Observed
from sqb.workspace import open_workspace
from unit.folders import write

FILES = {
    "seeds/people.csv": "id,name\n" + "1,somebody with a long name\n" * 40,
    "models/a/old.sql": "SELECT * FROM people",
    "models/a/seen.sql": "-- @kind: view\nSELECT * FROM a.old JOIN raw.events USING (id)",
    "models/a/made.sql": "SELECT * FROM a.seen JOIN people USING (id)",
    "models/a/numbers.sql": "SELECT id FROM range(5000000)",
}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return open_workspace(write(tmp_path, FILES)).project


def lake(rows: Mapping[str, int | None], files: Mapping[str, Listing] | None = None) -> LakeState:
    """A lake with tables of so many rows."""
    states = {Relation(*name.split(".")): TableState("uuid", rows=count) for name, count in rows.items()}
    externals = {"raw.events": Relation("raw", "events")} if "raw.events" in rows else {}
    return LakeState(Observed(), states, externals, files or {})


def plan(*names: str) -> Any:
    return SimpleNamespace(nodes=[SimpleNamespace(name=name, action="run") for name in names])


def test_rows_are_counted_as_often_as_they_are_read(project: Project, tmp_path: Path) -> None:
    state = lake({"seeds.people": 10, "a.old": 100, "raw.events": 1000})
    assert estimate_plan_rows(plan("a.old"), project, state, tmp_path) == 10
    assert estimate_plan_rows(plan("a.made"), project, state, tmp_path) == 1110
    assert estimate_plan_rows(plan("a.made", "a.old"), project, state, tmp_path) == 1120


def test_what_is_not_there_yet_is_as_large_as_what_it_is_made_of(project: Project, tmp_path: Path) -> None:
    size = (tmp_path / "seeds" / "people.csv").stat().st_size // 40
    rows = estimate_plan_rows(plan("seeds.people", "a.old", "a.made"), project, lake({"raw.events": 1000}), tmp_path)
    assert rows == size + (size + 1000) + size


@pytest.mark.parametrize("events", [{}, {"raw.events": None}])
def test_what_is_not_known_is_not_taken_for_little(
    project: Project, tmp_path: Path, events: Mapping[str, int | None]
) -> None:
    state = lake({"seeds.people": 10, "a.old": 100, **events})
    assert estimate_plan_rows(plan("a.made"), project, state, tmp_path) is None
    assert estimate_plan_rows(plan("python.task"), project, state, tmp_path) is None
    assert estimate_plan_rows(plan("a.old"), project, state, tmp_path) == 10


def test_files_are_as_many_rows_as_their_bytes_allow(project: Project) -> None:
    listing = Listing("raw.events", "csv", {}, "/f", (("a.csv", 4000, 0), ("b.csv", 400, 0)))
    assert build_row_counter(project, lake({}, {"raw.events": listing}))("raw.events") == 110


def test_rows_that_a_query_makes_of_nothing_count(project: Project, tmp_path: Path) -> None:
    assert estimate_plan_rows(plan("a.numbers"), project, lake({}), tmp_path) == 5_000_000


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT 1", 0),
        ("SELECT * FROM range(10)", 10),
        ("SELECT * FROM range(0, 1000L) CROSS JOIN range(2000)", 2_000_000),
        ("SELECT explode(sequence(1, 365)) AS day", 365),
        ("SELECT sum(x) OVER (ORDER BY d RANGE BETWEEN 1000000 PRECEDING AND CURRENT ROW) FROM t", 0),
        ("SELECT 'range(1000000)' -- range(1000000)", 0),
        ("SELECT sequence(a, b) FROM t", 1),
    ],
)
def test_generated_rows(sql: str, rows: int) -> None:
    assert estimate_generated_rows(sql) == rows
