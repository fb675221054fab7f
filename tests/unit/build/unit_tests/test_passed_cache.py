"""Which unit tests have to run, and what is remembered of those that passed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sqb.build.unit_tests.passed_cache import InputStates, PassedTestCache, compute_key, compute_tokens, is_only_built
from sqb.compile.model import UnitTest
from sqb.lake.port import TableState
from sqb.names import Relation
from sqb.plan.recorded.commit_identity import CommitIdentity
from sqb.workspace import Workspace, open_workspace
from support.memory_lake import MemoryLake
from unit.folders import write

FILES = {
    "seeds/orders.csv": "id,amount\n1,10\n",
    "models/s/base.sql": "SELECT * FROM raw.events",
    "models/s/m.sql": "SELECT b.id FROM base AS b JOIN orders AS o ON o.id = b.id",
    "tests/t.yml": "tests:\n  - {name: a, model: m, expect: []}\n  - {name: b, model: base, expect: [{id: 1}]}\n",
}
EVENTS, BASE = Relation("raw", "events"), Relation("s", "base")


def opened(root: Path, **changed: str) -> Workspace:
    return open_workspace(write(root, {**FILES, **{k.replace("__", "/"): v for k, v in changed.items()}}))


def state(token: str, local_hash: str = "") -> TableState:
    return TableState("uuid", columns_token=token, identity=CommitIdentity(local_hash=local_hash))


def names(tests: list[UnitTest]) -> list[str]:
    return [t.name for t in tests]


class Scene:
    """A project, what stands in its lake, and what passed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lake: Any = MemoryLake()
        self.states = {EVENTS: state("events 1")}

    def record(self, workspace: Workspace) -> PassedTestCache:
        return PassedTestCache(workspace, self.lake)

    def due(self, workspace: Workspace) -> list[str]:
        return names(self.record(workspace).list_due(workspace.project.tests, InputStates(self.states)))

    def all_pass(self, workspace: Workspace) -> None:
        project, seen = workspace.project, InputStates(self.states)
        passed = [(t, compute_key(t, compute_tokens(t, project, seen))) for t in project.tests]
        self.lake.state.append_fingerprints(self.record(workspace).record(passed, "run"))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_what_passed_does_not_run_again(scene: Scene) -> None:
    workspace = opened(scene.root)
    assert scene.due(workspace) == ["a", "b"]
    scene.all_pass(workspace)
    assert scene.due(workspace) == []


def test_a_cache_that_is_gone_is_made_up_from_the_history(scene: Scene) -> None:
    workspace = opened(scene.root)
    scene.all_pass(workspace)
    cache = workspace.folder / "cache" / "tests.json"
    cache.unlink()
    assert scene.due(workspace) == []
    assert cache.exists()
    scene.lake = None  # nobody asks it again
    assert scene.due(workspace) == []


@pytest.mark.parametrize("text", ["", "[]", "not json", '{"dev": 3}'])
def test_a_broken_cache_is_no_cache(scene: Scene, text: str) -> None:
    workspace = opened(scene.root)
    scene.all_pass(workspace)
    (workspace.folder / "cache" / "tests.json").write_text(text)
    assert scene.due(workspace) == []


@pytest.mark.parametrize(
    ("path", "text", "due"),
    [
        ("tests__t.yml", FILES["tests/t.yml"].replace("{id: 1}", "{id: 2}"), ["b"]),
        ("tests__t.yml", "# a comment\n" + FILES["tests/t.yml"], []),
        ("models__s__m.sql", FILES["models/s/m.sql"] + " WHERE b.id > 0", ["a"]),
        ("models__s__m.sql", FILES["models/s/m.sql"] + " -- a comment", []),
        ("seeds__orders.csv", "id,amount\n1,10\n2,20\n", []),
        ("seeds__orders.csv", "id,amount\n1,x\n", ["a"]),
        # The definition stands for the columns of a model that was not built.
        ("models__s__base.sql", "SELECT id FROM raw.events", ["a", "b"]),
    ],
)
def test_what_makes_a_test_run_again(scene: Scene, path: str, text: str, due: list[str]) -> None:
    scene.all_pass(opened(scene.root))
    assert scene.due(opened(scene.root, **{path: text})) == due


def test_columns_that_changed_make_tests_run_again(scene: Scene) -> None:
    workspace = opened(scene.root)
    scene.all_pass(workspace)
    scene.states[EVENTS] = state("events 2")
    assert scene.due(workspace) == ["b"]


def test_a_definition_may_become_a_table_but_a_table_no_other_one(scene: Scene) -> None:
    workspace = opened(scene.root)
    project = workspace.project
    (test, _) = project.tests
    hash_ = project.nodes["s.base"].local_hash
    before = compute_tokens(test, project, InputStates(scene.states))
    built = compute_tokens(test, project, InputStates({**scene.states, BASE: state("base 1", hash_)}))
    altered = compute_tokens(test, project, InputStates({**scene.states, BASE: state("base 2", hash_)}))
    assert is_only_built(before, built) and not is_only_built(built, altered)


def test_a_table_that_is_to_be_rebuilt_counts_with_the_columns_that_it_has(scene: Scene) -> None:
    scene.states[BASE] = state("base 1")
    scene.all_pass(opened(scene.root))
    assert scene.due(opened(scene.root, **{"models__s__base.sql": "SELECT id FROM raw.events"})) == ["b"]


def test_tests_that_are_gone_are_forgotten(scene: Scene) -> None:
    workspace = opened(scene.root)
    scene.all_pass(workspace)
    fewer = replace(workspace, project=replace(workspace.project, tests=workspace.project.tests[:1]))
    scene.all_pass(fewer)
    assert '"b"' not in (workspace.folder / "cache" / "tests.json").read_text()
