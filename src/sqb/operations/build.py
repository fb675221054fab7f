"""Executes a plan: repairs the history of a killed build, runs what is due, and finalizes the environment."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from sqb.build.history.recovery import repair_history
from sqb.build.notices import record_notices
from sqb.build.observe.lake import LakeState
from sqb.build.observe.renames import apply_renames, find_renames
from sqb.build.result import BuildResult, build_empty_result
from sqb.build.spark_engine import OnDemandSpark
from sqb.build.unit_tests.passed_cache import list_due_tests
from sqb.compile.model import UnitTest
from sqb.errors.base import SqbError
from sqb.lake.port import Lake
from sqb.light_dataclass import dataclass
from sqb.operations.environment import BuildEnvironment, lock_environment_for_build
from sqb.operations.plan import PlannedWorkspace, PlanOptions, plan_environment, replan
from sqb.operations.telemetry.watch import report_empty_run, watch_run
from sqb.project.files import read_git_commit
from sqb.workspace import Workspace

if TYPE_CHECKING:
    from sqb.build.events import Event, NodeDone
    from sqb.build.failpoints import Announce
    from sqb.environments.build.finalize import EnvironmentResult
    from sqb.lake.port import TableState
    from sqb.names import Relation
    from sqb.plan.model import Plan

    # Who hears of a build, for as long as it lasts: opened only when something runs, with the number of nodes that are
    # to run and the event that asks the build to stop.
    ListenTo = Callable[[int, threading.Event], AbstractContextManager[Callable[[Event], None]]]


@dataclass(frozen=True, slots=True)
class BuildOptions(PlanOptions):
    """What is built, and how."""

    concurrency: int | None = None
    fail_fast: bool = False
    store_failures: bool = False
    allow_data_loss: bool = False
    take_over: bool = False

    @property
    def plan_options(self) -> PlanOptions:
        """What a plan of the same takes."""
        return PlanOptions(**{f.name: getattr(self, f.name) for f in fields(PlanOptions)})

    def replace_plan_options(self, options: PlanOptions) -> BuildOptions:
        """The same way to build, for what another plan is of."""
        return replace(self, **{f.name: getattr(options, f.name) for f in fields(PlanOptions)})


@dataclass(frozen=True, slots=True)
class BuildOutcome:
    """The outcome of an executed plan."""

    planned: PlannedWorkspace
    result: BuildResult
    tested: bool
    repaired: str
    environment: EnvironmentResult | None
    # The tables that got the new names of their models, in words.
    renamed: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done beside building: tables that were renamed, and history that was written again."""
        return (*self.renamed, *([self.repaired] if self.repaired else []))

    @property
    def failed(self) -> list[NodeDone]:
        return [n for n in self.result.nodes if n.status == "failed" and n.error is not None]

    def to_data(self) -> dict[str, Any]:
        """What `sqb build --json` prints."""
        from sqb.operations.documents import encode_build  # people read lines

        return encode_build(self)


def build_project(
    workspace: Workspace,
    options: BuildOptions,
    spark: OnDemandSpark,
    listen_to: ListenTo,
    check: Callable[[PlannedWorkspace], None] | None = None,
) -> BuildOutcome:
    """Run what changed; `check` raises what keeps a plan from being carried out, before anything is made or run."""
    started_at = time.monotonic()

    def validate(environment: BuildEnvironment) -> None:
        options.select_in(environment, spark)
        if check is not None:
            check(plan_environment(environment, options, spark))

    lock = lock_environment_for_build(workspace, options.virtual_env, options.take_over, validate=validate)
    with lock as environment:
        planned = plan_environment(environment, options, spark)
        if check is not None:
            check(planned)
        renamed = rename_tables(planned.workspace, planned.lake)
        outcome = execute_plan(planned, options, listen_to, started_at)
        return replace(outcome, renamed=renamed) if renamed else outcome


def rename_tables(workspace: Workspace, lake: Lake, announce: Announce | None = None) -> tuple[str, ...]:
    """Give the tables of renamed models their new names, as the plan expects them; what was done, in words."""
    renames = find_renames(workspace.project, lake)
    if not renames:
        return ()
    from sqb.build.failpoints import read_failpoint  # few builds rename anything

    announce = announce or read_failpoint()
    for rename in renames:
        announce("before rename", rename.model)
        apply_renames(lake, [rename])
        announce("renamed", rename.model)
    return tuple(f"{rename.text}, which is {rename.relation} now" for rename in renames)


def execute_plan(
    planned: PlannedWorkspace, options: BuildOptions, listen_to: ListenTo, started_at: float
) -> BuildOutcome:
    """Execute a plan, in the environment that it is for and whose lock is held."""
    workspace, lake, seen, plan, spark = planned.workspace, planned.lake, planned.seen, planned.plan, planned.spark
    repaired = _repair_history(workspace, lake, seen)
    record_notices(workspace, seen, plan)
    due = list_due_tests(workspace, lake, seen, plan)
    environment = planned.environment
    if plan.nothing_to_do and not due:
        spark.stop()
        _record_sources(workspace, lake, seen, spark.run_id)
        result = build_empty_result(plan, spark.run_id, time.monotonic() - started_at, spark.started)
        report_empty_run(planned, result, listen_to)
        states, externals = seen.states, seen.externals
    else:
        if due or _starts_spark(workspace, plan):
            spark.refuse_unfit()
        environment = environment.begin_build()
        result, states, externals = _run_nodes(replace(planned, environment=environment), due, options, listen_to)
    return BuildOutcome(planned, result, bool(due), repaired, environment.finalize_build(result, states, externals))


def _starts_spark(workspace: Workspace, plan: Plan) -> bool:
    """Whether something runs that needs Spark, whatever comes of the nodes before it."""
    from sqb.build.node.reuse import needs_spark  # a build with nothing to do goes without

    nodes = workspace.project.nodes
    running = (p for p in plan.nodes if p.action == "run" and not p.pending and p.name in nodes)
    return any(needs_spark(p, nodes[p.name]) for p in running)


def _repair_history(workspace: Workspace, lake: Lake, seen: LakeState) -> str:
    """Write the history that a killed build left out, if there is any; the tables are right without it."""
    try:
        return repair_history(workspace, lake, seen.states)
    except SqbError as error:
        return f"the history of a killed build could not be written: {error.message}"


def _record_sources(workspace: Workspace, lake: Lake, seen: LakeState, run_id: str) -> None:
    """Record new values of sources whose data has come to everything below them already."""
    if not any(s.verdict in ("new", "changed") for s in seen.observed.sources.values()):
        return
    from sqb.build.history.freshness import list_settled_sources

    rows = list_settled_sources(workspace.project, seen.observed, run_id)
    if rows:
        lake.state.append_freshness(rows)


def _run_nodes(
    planned: PlannedWorkspace, due: list[UnitTest], options: BuildOptions, listen_to: ListenTo
) -> tuple[BuildResult, Mapping[Relation, TableState], Mapping[str, Relation]]:
    """Run the plan's nodes; loaded only when there are any. Also the table states after it, and where externals are."""
    from sqb.build.context import BuildSettings
    from sqb.build.events import Progress
    from sqb.build.failpoints import read_failpoint
    from sqb.build.rounds import run_rounds
    from sqb.build.scheduler import Build
    from sqb.build.work_size import estimate_plan_rows

    workspace, spark = planned.workspace, planned.spark
    width = options.concurrency or workspace.concurrency or max(2, os.cpu_count() or 2)
    git, announce = read_git_commit(workspace.root), read_failpoint()
    settings = BuildSettings(
        spark.run_id,
        width,
        options.fail_fast,
        git,
        announce,
        options.store_failures,
        options.allow_data_loss,
        spark.stop_requested,
        environment=planned.environment.name,
    )
    count = planned.plan.summary["run"]
    with listen_to(count, settings.stop) as listener, watch_run(planned, listener) as watch:
        listen = watch.listen
        engine = spark.get_engine(lambda text: listen(Progress(text)), width)
        engine.tell(listen)
        engine.expect_rows(estimate_plan_rows(planned.plan, workspace.project, planned.seen, workspace.root))
        try:
            build = Build(workspace, planned.lake, planned.seen, planned.plan, engine, settings, listen, due)
            watch.state = build.state
            result, build = run_rounds(build, lambda names: replan(planned, names))
            watch.result = result
            return result, build.state.states, build.state.externals
        except BaseException:
            settings.stop.set()  # nodes that still run have lost their build
            raise
        finally:
            engine.stop()
