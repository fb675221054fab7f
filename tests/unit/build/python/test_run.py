"""What becomes of Python nodes by what becomes of those above them: random graphs against a small reference model."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqb.build.context import BuildSettings
from sqb.build.events import Event, NodeDone
from sqb.build.history.record import Recorder
from sqb.build.observe.lake import LakeState, observe_lake
from sqb.build.python import run
from sqb.build.python.child_process import Answer, Call
from sqb.build.scheduler import Build
from sqb.compile.model import Project
from sqb.errors.build import BuildError
from sqb.errors.connections import SparkDisconnected
from sqb.errors.spark import SparkLost
from sqb.lake.open import open_lake
from sqb.lake.port import Lake
from sqb.plan.decide import make_plan
from sqb.plan.model import Options
from sqb.plan.observed import Observed
from sqb.workspace import Workspace, open_workspace
from support.examples import count_examples
from unit.plan.worlds import project, python, ran

BEHAVIOURS = ("ok", "failed", "soft", "hard")


def answer(behaviour: str) -> Answer:
    if behaviour == "lost":
        return Answer("failed", error=SparkLost("the connection to Spark broke"))
    if behaviour == "unlent":
        raise ConnectionError("Spark is not there to be lent")
    if behaviour == "failed":
        return Answer("failed", error=BuildError("it was told to fail"))
    if behaviour in ("soft", "hard"):
        return Answer("skipped", skip_mode=behaviour, reason="it was told to")  # type: ignore[arg-type]
    return Answer("ok", payload='"done"')


class World:
    """A lake with nothing in it, and children that do as they are told."""

    def __init__(self, root: Path) -> None:
        (root / "sqlbuild_project.toml").write_text('name = "shop"\n')
        self.workspace: Workspace = open_workspace(root)
        self.lake: Lake = open_lake(self.workspace)
        self.look: LakeState = observe_lake(self.workspace, self.lake)
        self.engine: Never = Never()

    def build(
        self, nodes: Project, behaviours: Mapping[str, str], observed: Observed, width: int
    ) -> dict[str, NodeDone]:
        workspace = replace(self.workspace, project=nodes)
        events: list[Event] = []
        plan = make_plan(nodes, observed, Options())
        seen = replace(self.look, observed=observed)
        settings_ = BuildSettings("run 2", width, stop=threading.Event())
        engine: Any = self.engine
        build = Build(workspace, self.lake, seen, plan, engine, settings_, events.append)
        self.behaviours = behaviours
        self.ran: list[str] = []
        return {done.planned.name: done for done in build.run().nodes}

    @contextmanager
    def run_child(self, call: Call, *_: Any) -> Iterator[Answer]:
        self.ran.append(call.name)
        yield answer(self.behaviours[call.name])


class Never:
    """A Spark that nobody may start."""

    started = False
    start_span = None
    failed = None

    def warm(self) -> None:
        raise AssertionError("Spark was started")

    session = shared = cancel = warm


class Gone(Never):
    """A Spark that was there."""

    started = gone = True

    def loss(self) -> SparkDisconnected:
        return SparkDisconnected("the connection big broke")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    result = World(tmp_path_factory.mktemp("world"))
    patch = pytest.MonkeyPatch()
    patch.setattr(run, "run_with_retries", result.run_child)
    patch.setattr(Recorder, "write_history", lambda *_: None)
    yield result
    patch.undo()


def reference(
    edges: Mapping[str, Sequence[str]], behaviours: Mapping[str, str], pruned: bool = False
) -> dict[str, str]:
    """What becomes of each node, in the words of the documentation; `pruned` where all have run before."""
    by_name: dict[str, str] = {}
    for name, above in edges.items():
        ended = {by_name[u] for u in above}
        if ended & {"failed", "blocked"}:
            by_name[name] = "blocked"
        elif "hard" in ended:
            by_name[name] = "hard"
        elif above and ended == {"soft"}:
            by_name[name] = "soft"
        elif pruned and above and "ok" not in ended:
            by_name[name] = "skipped"
        else:
            by_name[name] = behaviours[name]
    return by_name


def outcome(done: NodeDone) -> str:
    return done.skip or done.status


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[str, list[str]], dict[str, str]]:
    names = [f"n{i}" for i in range(draw(st.integers(1, 9)))]
    edges = {
        name: sorted(draw(st.sets(st.sampled_from(names[:index]), max_size=3))) if index else []
        for index, name in enumerate(names)
    }
    return edges, {name: draw(st.sampled_from(BEHAVIOURS)) for name in names}


@given(graph=graphs(), width=st.integers(1, 4))
@settings(max_examples=count_examples(150), deadline=None)
def test_skips_and_failures_go_down_as_the_documentation_says(
    world: World, graph: tuple[dict[str, list[str]], dict[str, str]], width: int
) -> None:
    edges, behaviours = graph
    nodes = project(*(python(name, "task", *above) for name, above in edges.items()))
    done = world.build(nodes, behaviours, Observed(), width)
    expected = reference(edges, behaviours)
    assert {name: outcome(one) for name, one in done.items()} == expected
    started = {name for name, above in edges.items() if expected[name] == behaviours[name] and name in world.ran}
    assert set(world.ran) == started
    for name, above in edges.items():
        before = [world.ran.index(u) for u in above if u in world.ran]
        assert name not in world.ran or all(index < world.ran.index(name) for index in before)


@given(graph=graphs())
@settings(max_examples=count_examples(60), deadline=None)
def test_after_a_run_only_what_lies_below_something_that_ran_runs_again(
    world: World, graph: tuple[dict[str, list[str]], dict[str, str]]
) -> None:
    edges, behaviours = graph
    nodes = project(*(python(name, "task", *above) for name, above in edges.items()))
    observed = Observed(python=ran(nodes, {}))
    done = world.build(nodes, behaviours, observed, 2)
    # A node without dependencies runs always; the others if one above them did its work.
    assert {name: outcome(one) for name, one in done.items()} == reference(edges, behaviours, pruned=True)


def test_a_node_that_lost_spark_says_which(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where no session could be lent to its child."""
    monkeypatch.setattr(world, "engine", Gone())
    behaviours = {"read": "lost", "lend": "unlent", "other": "failed"}
    done = world.build(project(*(python(name, "task") for name in behaviours)), behaviours, Observed(), 2)
    messages = {name: one.error.message for name, one in done.items() if one.error is not None}
    assert messages == {
        "read": "the connection big broke",
        "lend": "the connection big broke",
        "other": "it was told to fail",
    }
