"""A plan carried out: what a killed build left is repaired, what is due runs, and an environment shows it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqb.build.noticed import note_notices
from sqb.build.observe import Look
from sqb.build.passed_tests import due_tests
from sqb.build.recovery import repair
from sqb.build.result import BuildResult, nothing_ran
from sqb.compiled import UnitTest
from sqb.errors import SqbError
from sqb.lake.iceberg import IcebergLake
from sqb.operations.environment import begun, shown
from sqb.operations.planning import Planned, plan_again
from sqb.plan.values import Plan
from sqb.project.git import git_commit
from sqb.workspace import Workspace

if TYPE_CHECKING:
    from sqb.build.events import Event, NodeDone
    from sqb.environments.building import Settled
    from sqb.environments.entering import Entered
    from sqb.lake.port import TableState
    from sqb.names import Relation

    # Who hears of a build, for as long as it lasts: opened only when something runs, with the plan and the event that
    # asks the build to stop.
    Listening = Callable[[Plan, threading.Event], AbstractContextManager[Callable[[Event], None]]]


@dataclass(frozen=True, slots=True)
class HowToBuild:
    """How a build is to go about it."""

    concurrency: int | None = None
    fail_fast: bool = False
    store_failures: bool = False
    allow_data_loss: bool = False


@dataclass(frozen=True, slots=True)
class Built:
    """A plan that was carried out, and what is to be told of it."""

    result: BuildResult
    tested: bool
    repaired: str
    settled: Settled | None

    @property
    def failed(self) -> list[NodeDone]:
        return [n for n in self.result.nodes if n.status == "failed" and n.error is not None]


def carry_out(
    made: Planned, how: HowToBuild, began: float, entered: Entered | None, token: str, listening: Listening
) -> Built:
    """Build what was planned."""
    workspace, lake, seen, plan, asker = made.workspace, made.lake, made.seen, made.plan, made.asker
    repaired = _repaired(workspace, lake, seen)
    note_notices(workspace, seen, plan)
    due = due_tests(workspace, lake, seen, plan)
    if plan.nothing_to_do and not due:
        asker.stop()
        _record_sources(workspace, lake, seen, asker.run_id)
        result = nothing_ran(plan, asker.run_id, time.monotonic() - began, asker.started)
        states, externals = seen.states, seen.externals
    else:
        entered = begun(entered, token)
        result, states, externals = _run(made, due, how, listening)
    return Built(result, bool(due), repaired, shown(entered, result, states, externals, token))


def _repaired(workspace: Workspace, lake: IcebergLake, seen: Look) -> str:
    """Write the history that a killed build left out, if there is any; the tables are right without it."""
    try:
        return repair(workspace, lake, seen.states)
    except SqbError as error:
        return f"the history of a killed build could not be written: {error.message}"


def _record_sources(workspace: Workspace, lake: IcebergLake, seen: Look, run_id: str) -> None:
    """Record new values of sources whose data has come to everything below them already."""
    if not any(s.verdict in ("new", "changed") for s in seen.observed.sources.values()):
        return
    from sqb.build.freshness_record import taken_in_already

    rows = taken_in_already(workspace.project, seen.observed, run_id)
    if rows:
        lake.append_freshness(rows)


def _run(
    made: Planned, due: list[UnitTest], how: HowToBuild, listening: Listening
) -> tuple[BuildResult, Mapping[Relation, TableState], Mapping[str, Relation]]:
    """Run the plan's nodes; loaded only when there are any. Also what stands then, and where externals are."""
    from sqb.build.events import Progress
    from sqb.build.rounds import run_rounds
    from sqb.build.run import Build, BuildSettings
    from sqb.build.steps import from_environment

    workspace, asker = made.workspace, made.asker
    width = how.concurrency or workspace.concurrency or max(2, os.cpu_count() or 2)
    git, announce = git_commit(workspace.root), from_environment()
    settings = BuildSettings(
        asker.run_id, width, how.fail_fast, git, announce, how.store_failures, how.allow_data_loss, asker.stop_asked
    )
    with listening(made.plan, settings.stop) as listen:
        engine = asker.engine(lambda text: listen(Progress(text)), width)
        try:
            build = Build(workspace, made.lake, made.seen, made.plan, engine, settings, listen, due)
            result, build = run_rounds(build, lambda names: plan_again(made, names))
            return result, build.states, build.externals
        except BaseException:
            settings.stop.set()  # nodes that still run have nobody left to work for
            raise
        finally:
            engine.stop()
