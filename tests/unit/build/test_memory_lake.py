"""A build needs no more of a lake than the port asks for: seeds are built on a lake in memory, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqb.build.context import BuildSettings
from sqb.build.events import Event
from sqb.build.observe.lake import observe_lake
from sqb.build.result import BuildResult
from sqb.build.scheduler import Build
from sqb.plan.decide import make_plan
from sqb.plan.model import Options
from sqb.workspace import open_workspace
from support.memory_lake import MemoryLake


class NoSpark:
    """A Spark that no seed may start."""

    started = gone = False
    start_span = None

    def session(self) -> None:
        raise AssertionError("Spark was started")

    warm = session


def build(root: Path, lake: MemoryLake, run_id: str) -> BuildResult:
    workspace, engine = open_workspace(root), NoSpark()
    seen = observe_lake(workspace, lake)
    plan = make_plan(workspace.project, seen.observed, Options())
    events: list[Event] = []
    spark: Any = engine
    return Build(workspace, lake, seen, plan, spark, BuildSettings(run_id), events.append).run()


def test_seeds_are_built_on_a_lake_in_memory(tmp_path: Path) -> None:
    (tmp_path / "sqlbuild_project.toml").write_text('name = "shop"\n')
    (tmp_path / "seeds").mkdir()
    seed = tmp_path / "seeds" / "countries.csv"
    seed.write_text("id,name\n1,France\n2,Japan\n")
    lake = MemoryLake()
    first = build(tmp_path, lake, "r1")
    assert [(n.status, n.rows, n.error) for n in first.nodes] == [("ok", 2, None)]
    relation = first.nodes[0].planned.relation
    assert relation is not None and lake.rows(relation) == [(1, "France"), (2, "Japan")]
    assert [n.status for n in build(tmp_path, lake, "r2").nodes] == ["skipped"]
    seed.write_text("id,name\n1,France\n2,Japan\n3,Peru\n")
    assert [(n.status, n.rows) for n in build(tmp_path, lake, "r3").nodes] == [("ok", 3)]
    assert [row.run_id for row in lake.state.read_node_results([relation.schema])] == ["r3", "r1"]
