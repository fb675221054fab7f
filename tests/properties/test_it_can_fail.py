"""The property test is worth something only if it fails when the engine is wrong: here it is made wrong on purpose."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqb.build.incremental.refresh import TableSlot
from support.exactness import NotExact, World
from support.random_lake import Model, Query
from support.sandbox import Sandbox, SandboxMaker


def _world(sandbox: Sandbox) -> World:
    world = World(sandbox)
    for statement in (
        "CREATE NAMESPACE raw",
        "CREATE TABLE raw.a (k INT, v STRING)",
        "CREATE TABLE raw.b (k INT, w STRING)",
        "INSERT INTO raw.a VALUES (1, 'x')",
        "INSERT INTO raw.b VALUES (1, 'y')",
    ):
        world.do(statement)
    query = Query("SELECT a.v, b.w FROM raw.a AS a JOIN raw.b AS b ON a.k = b.k", {"v": "string", "w": "string"})
    world.add(Model("m.joined", "table", query, ("raw.a", "raw.b")))
    log = Query("SELECT v FROM raw.a", {"v": "string"})
    world.add(Model("m.log", "append", log, ("raw.a",)))
    world.build()
    world.do("INSERT INTO raw.a VALUES (2, 'new')")
    world.do("INSERT INTO raw.b VALUES (2, 'new')")
    return world


def test_the_engine_as_it_is(new_sandbox: SandboxMaker, tmp_path: Path) -> None:
    world = _world(new_sandbox(tmp_path / "right"))
    world.build()
    assert world.run_types["incremental"] == 2


def test_both_sides_of_a_join_new(new_sandbox: SandboxMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A join's changes against new versions on both sides: what came on both sides at once is counted twice."""
    world = _world(new_sandbox(tmp_path / "wrong"))
    monkeypatch.setattr(TableSlot, "then", TableSlot.now)
    with pytest.raises(NotExact, match=r"m\.joined: incremental.*\n.*too many: .*new.*new"):
        world.build()


def test_a_row_that_nobody_wrote(new_sandbox: SandboxMaker, tmp_path: Path) -> None:
    """A log with a row too many, and the content that no longer fits it."""
    world = _world(new_sandbox(tmp_path / "edited"))
    world.build()
    world.logs["m.log"]["('ghost',)"] += 1
    with pytest.raises(NotExact, match=r"m\.log: skipped\n.*\n.*missing: .*ghost"):
        world.build()
