"""Observing sources of a real lake, without Spark: who is asked, what is kept, and what cannot be told."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sqb.build.history.freshness import list_consumed_sources
from sqb.build.observe.lake import observe_lake
from sqb.build.observe.sources import observe_names, observe_sources, read_recorded_freshness
from sqb.compile.model import Node, Project
from sqb.errors.base import SqbError
from sqb.errors.lake import NewerState
from sqb.errors.sources import ClockBackwards, FreshnessUnknown, SourceGone
from sqb.lake.iceberg import IcebergLake
from sqb.lake.open import open_lake
from sqb.lake.port import Column, Shape
from sqb.lake.state.rows import FreshnessRow
from sqb.names import Relation
from sqb.plan.decide import make_plan
from sqb.plan.observed import Observed, RelationState, list_versions_read, record_sources
from sqb.plan.recorded.commit_identity import CommitIdentity
from sqb.workspace import Workspace, open_workspace
from unit.folders import write

COLUMNS = (Column("id", "long"), Column("ts", "timestamp"), Column("name", "string"))
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
MODELS = {"models/s/a.sql": "SELECT * FROM raw.x", "models/t/b.sql": "SELECT * FROM raw.x"}


def refuse_spark() -> Any:
    raise AssertionError("Spark is not needed for this")


def opened(root: Path, files: Mapping[str, str]) -> tuple[Workspace, IcebergLake]:
    workspace = open_workspace(write(root, files))
    return workspace, open_lake(workspace)


def put(lake: IcebergLake, name: str, *hours: int) -> None:
    """A table with a row for each hour after noon, added to those that are there."""
    relation = Relation.parse(name)
    lake.ensure_schemas([relation.schema])
    pointer = lake.list_pointers().get(relation)
    base = lake.read_tables([pointer])[relation].base if pointer is not None else None
    stage = lake.stage(relation, Shape(COLUMNS, keeps_rows=base is not None), base, f"r{len(hours)}_{sum(hours)}")
    lake.fill(stage, [list(hours), [NOON + timedelta(hours=h) for h in hours], [f"n{h}" for h in hours]])
    lake.publish(stage, {}, [] if base is not None else None)


def source(freshness: str) -> dict[str, str]:
    return {**MODELS, "sources/s.yml": f"sources:\n- name: raw.x\n  freshness: {freshness}\n"}


def seen(workspace: Workspace, lake: IcebergLake, name: str = "raw.x") -> tuple[str, str, str]:
    messages = observe_names(workspace.project, lake, observe_lake(workspace, lake), [name], refuse_spark)
    if messages.failed:
        raise messages.failed[name]
    entry = messages.observations[name]
    return entry.strategy, entry.kind, entry.value


@pytest.mark.parametrize(
    ("freshness", "expected"),
    [
        ("{column: ts, type: timestamp}", ("column", "timestamp", "2024-01-01T15:00:00.000000+00:00")),
        ("{column: TS}", ("column", "timestamp", "2024-01-01T15:00:00.000000+00:00")),
        ("{column: id, type: integer}", ("column", "integer", "3")),
        ("{column: id, type: string}", ("column", "string", "3")),
        ("{column: id, filter: id < 2}", ("column", "integer", "1")),
    ],
)
def test_columns_whose_statistics_tell(tmp_path: Path, freshness: str, expected: tuple[str, str, str]) -> None:
    workspace, lake = opened(tmp_path, source(freshness))
    put(lake, "raw.x", 0, 1)
    put(lake, "raw.x", 3)
    assert seen(workspace, lake) == expected


def test_versions_of_tables_and_files(tmp_path: Path) -> None:
    files = {
        "models/s/a.sql": "SELECT * FROM raw.x, f",
        "sources/s.yml": "sources:\n- {name: f, path: in/*.csv, freshness: {type: timestamp, lag_tolerance: 1h}}\n",
        "in/a.csv": "1",
    }
    workspace, lake = opened(tmp_path, files)
    os.utime(tmp_path / "in/a.csv", (1_704_110_400, 1_704_110_400))
    put(lake, "raw.x", 0)
    first = seen(workspace, lake)
    assert first[:2] == ("adapter", "snapshot")
    put(lake, "raw.x", 1)
    assert seen(workspace, lake) != first
    assert seen(workspace, lake, "f") == ("adapter", "timestamp", "2024-01-01T12:00:00.000000+00:00")


@pytest.mark.parametrize(
    ("freshness", "says"),
    [
        ("{column: id, type: timestamp}", "`type` is timestamp, but the value is of the type integer"),
        ("{column: ts, type: integer}", "`type` is integer, but the value is of the type timestamp"),
        ("{column: id, filter: id > 100}", "max(id) is NULL"),
    ],
)
def test_values_that_are_none(tmp_path: Path, freshness: str, says: str) -> None:
    workspace, lake = opened(tmp_path, source(freshness))
    put(lake, "raw.x", 0, 1)
    there = observe_lake(workspace, lake)
    error = observe_names(workspace.project, lake, there, ["raw.x"], refuse_spark).failed["raw.x"]
    assert isinstance(error, FreshnessUnknown) and says in error.message and error.hint
    assert str(error.at).startswith("sources/s.yml:3:")
    seen = observe_sources(workspace, lake, there, refuse_spark).observed
    assert seen.unknown["raw.x"] == f"{error.at}: {error.message}" and "raw.x" not in seen.sources


def test_readers_of_a_source_that_cannot_be_observed_run(tmp_path: Path) -> None:
    """An empty table has no greatest value: refuse_spark knows whether it changed, and nothing else is concerned."""
    files = {
        **source("{column: ts, type: timestamp, age_policy: {error_after: 1h}}"),
        "models/s/seen.sql": "-- @kind: view\nSELECT * FROM raw.x",
        "models/s/below.sql": "SELECT * FROM seen",
        "models/s/other.sql": "SELECT * FROM raw.y",
    }
    workspace, lake = opened(tmp_path, files)
    put(lake, "raw.x")
    put(lake, "raw.y", 0)
    project, there = workspace.project, observe_sources(workspace, lake, observe_lake(workspace, lake), refuse_spark)
    first = {n.name: str(n.reason) for n in make_plan(project, there.observed).nodes}
    assert set(first.values()) == {"First run"}
    built = {n.relation: describe_relation(n, project, there.observed) for n in project}
    observed = replace(there.observed, relations={**there.observed.relations, **built})
    plan = make_plan(project, observed)
    assert {n.name: str(n.reason) for n in plan.nodes if n.action == "run"} == {
        "s.a": "Source unknown",
        "s.below": "Source unknown",
        "t.b": "Source unknown",
    }
    assert [w for w in plan.warnings if "max(ts) is NULL; what reads raw.x runs" in w] == list(plan.warnings)
    # What is recorded of other sources does not wait for one that cannot be observed.
    assert make_plan(project, replace(observed, unknown={})).nothing_to_do


def describe_relation(node: Node, project: Project, observed: Observed) -> RelationState:
    sources = record_sources(list_versions_read(node, project, observed.relations))
    identity = CommitIdentity(model=node.name, local_hash=node.local_hash, sources=sources)
    return RelationState(is_view=node.kind == "view", identity=identity)


def test_what_was_told_is_kept_while_the_table_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace, lake = opened(tmp_path, source("{column: ts, type: timestamp}"))
    put(lake, "raw.x", 0)
    value = seen(workspace, lake)
    asked: list[str] = []
    ask = IcebergLake.read_column_maximum

    def counted(self: IcebergLake, *given: Any) -> object:
        asked.append("")
        return ask(self, *given)

    monkeypatch.setattr(IcebergLake, "read_column_maximum", counted)
    again, lake = opened(tmp_path, source("{column: ts, type: timestamp}"))
    assert seen(again, lake) == value and asked == []
    put(lake, "raw.x", 1)
    assert seen(again, lake) != value and asked == [""]
    assert seen(*opened(tmp_path, source("{column: id}"))) == ("column", "integer", "1") and asked == ["", ""]


def test_files_that_are_gone(tmp_path: Path) -> None:
    text = "sources:\n- {name: a, path: in/a.csv}\n- {name: b, path: in/*.json}\n- {name: c, path: in, format: orc}\n"
    files = {"models/m.sql": "SELECT * FROM a, b, c", "sources/s.yml": text}
    workspace, lake = opened(tmp_path, files)
    with pytest.raises(SqbError) as caught:
        observe_lake(workspace, lake)
    errors = getattr(caught.value, "errors", [])
    assert [(type(e), str(e.at)) for e in errors] == [(SourceGone, f"sources/s.yml:{line}:10") for line in (2, 3, 4)]
    assert all(e.hint for e in errors)
    with_schema = text.replace("in/*.json", 'in/*.json, options: {schema: "id INT"}')
    write(tmp_path, {**files, "sources/s.yml": with_schema, "in/a.csv": "1", "in/c.orc": "1"})
    again, lake = opened(tmp_path, {})
    assert {name: len(listing.files) for name, listing in observe_lake(again, lake).files.items()} == {
        "a": 1,
        "b": 0,
        "c": 2,
    }


# --- what is recorded ---------------------------------------------------------------------------------------------


def row(schema: str, value: str, at: datetime, strategy: str = "column", kind: str = "timestamp") -> FreshnessRow:
    return FreshnessRow("raw.x", schema, "run", strategy, kind, value, at)


def test_the_latest_of_all_schemas_counts(tmp_path: Path) -> None:
    workspace, lake = opened(tmp_path, source("{column: ts, type: timestamp}"))
    lake.state.append_freshness([row("s", "one", NOON), row("t", "two", NOON + timedelta(hours=1))])
    lake.state.append_freshness(
        [row("s", "three", NOON - timedelta(days=1)), row("elsewhere", "four", datetime.now(UTC))]
    )
    for fresh in (lake, open_lake(workspace), IcebergLake(workspace.lake_location)):
        recorded_freshness = read_recorded_freshness(workspace.project, fresh, NOON.timestamp() + 1e6)
        assert (recorded_freshness["raw.x"].value, recorded_freshness["raw.x"].observed_at) == (
            "two",
            (NOON + timedelta(hours=1)).timestamp(),
        )


def test_a_clock_that_went_backwards(tmp_path: Path) -> None:
    workspace, lake = opened(tmp_path, source("{column: ts, type: timestamp}"))
    put(lake, "raw.x", 0)
    lake.state.append_freshness([row("s", "x", datetime.now(UTC) + timedelta(minutes=4))])
    observe_sources(workspace, lake, observe_lake(workspace, lake), refuse_spark)
    lake.state.append_freshness([row("s", "x", datetime.now(UTC) + timedelta(hours=2))])
    with pytest.raises(ClockBackwards, match=r"raw\.x was last observed at"):
        observe_sources(workspace, lake, observe_lake(workspace, lake), refuse_spark)


def test_state_of_a_newer_version_is_refused_before_anything_runs(tmp_path: Path) -> None:
    workspace, lake = opened(tmp_path, source("{column: ts, type: timestamp}"))
    put(lake, "raw.x", 0)
    lake.state.append_freshness([row("s", "x", NOON)])
    with sqlite3.connect(str(workspace.lake_location.database)) as connection:
        (path,) = connection.execute(
            "SELECT metadata_location FROM iceberg_tables WHERE table_name = '_sqlbuild_source_freshness'"
        ).fetchone()
    text = Path(path.removeprefix("file://")).read_text()
    newer = Path(path.removeprefix("file://")).with_name("00009-newer.metadata.json")
    newer.write_text(text.replace('"sqb.state_version":"1"', '"sqb.state_version":"2"'))
    with sqlite3.connect(str(workspace.lake_location.database)) as connection:
        connection.execute(
            "UPDATE iceberg_tables SET metadata_location = ? WHERE metadata_location = ?", (str(newer), path)
        )
    with pytest.raises(NewerState):
        observe_lake(workspace, open_lake(workspace))


def test_nothing_is_recorded_while_something_below_has_not_taken_it_in(tmp_path: Path) -> None:
    workspace, lake = opened(tmp_path, source("{column: ts, type: timestamp}"))
    put(lake, "raw.x", 0)
    there = observe_sources(workspace, lake, observe_lake(workspace, lake), refuse_spark)
    assert list_consumed_sources(workspace, lake, there, dict(there.observed.relations), "run", datetime.now(UTC)) == []
