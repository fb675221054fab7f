"""A project as Python programs work with it: `sqb.Project(".")`, and the same in one call."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from sqb.api.listener import EventForwarder, StopEvent
from sqb.api.options import (
    BuildKeywords,
    Listen,
    PlanKeywords,
    RunArguments,
    SparkSession,
    parse_options,
    parse_selectors,
)
from sqb.api.stale_plan import check_plan_current, list_definitions
from sqb.api.values import Node, Plan, Result, Rows
from sqb.build.result import generate_run_id
from sqb.build.spark_engine import OnDemandSpark
from sqb.console.documents import encode_build, encode_shown_plan
from sqb.errors.call import CallError
from sqb.operations.build import execute_plan
from sqb.operations.environment import lock_environment_for_build, open_environment
from sqb.operations.freshness import FreshnessOptions, observe_freshness
from sqb.operations.history import HistoryOptions, read_history
from sqb.operations.plan import PlannedWorkspace, enrich_plan, plan_workspace, validate_values
from sqb.operations.query import QueryOptions, run_query
from sqb.project.files import find_root
from sqb.workspace import Workspace, open_workspace

if TYPE_CHECKING:
    from sqb.environments.session import EnvironmentSession


class ProjectOptions(TypedDict, total=False):
    """Which project, where it is named by its folder."""

    target: str | None
    vars: Mapping[str, Any] | None


class PlanCallKeywords(ProjectOptions, PlanKeywords, total=False):
    """What `sqb.plan` takes."""

    spark: SparkSession | None
    listen: Listen | None


class BuildCallKeywords(ProjectOptions, BuildKeywords, total=False):
    """What `sqb.build` takes."""


class Project:
    """A project's folder and target. Every method looks at the files and the lake as they are when it is called.

    A project holds nothing open, so one can be used by many threads. `spark` is a session to work on, classic or Spark
    Connect; without one, Spark is started where it is needed and ended again. `listen` hears of everything.
    """

    def __init__(
        self,
        folder: str | Path = ".",
        *,
        target: str | None = None,
        vars: Mapping[str, Any] | None = None,
        spark: SparkSession | None = None,
        listen: Listen | None = None,
    ) -> None:
        self.root = find_root(Path(folder))
        self.vars = dict(vars or {})
        validate_values(self.vars)
        self._target, self._arguments = target, RunArguments(spark=spark, listen=listen)

    def _copy_with(
        self,
        target: str | None = None,
        vars: Mapping[str, Any] | None = None,
        spark: SparkSession | None = None,
        listen: Listen | None = None,
    ) -> Project:
        """The same project with some things given anew."""
        return Project(
            self.root,
            target=target or self._target,
            vars={**self.vars, **(vars or {})},
            spark=spark or self._arguments.spark,
            listen=listen or self._arguments.listen,
        )

    def __repr__(self) -> str:
        target = f", target={self._target!r}" if self._target is not None else ""
        return f"sqb.Project({str(self.root)!r}{target})"

    # --- what the files say ---------------------------------------------------------------------------------------

    def _open(self) -> Workspace:
        return open_workspace(self.root, self._target, self.vars)

    @property
    def name(self) -> str:
        return self._open().project.name

    @property
    def target(self) -> str:
        """The target that is worked on: the one that was given, else the project's default."""
        return self._target or self._open().project.target

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes of the project, each after what it reads; the lake is not looked at."""
        project = self._open().project
        edges = project.list_edges()
        return tuple(
            Node(
                n.name,
                n.type,
                n.kind,
                str(n.relation) if n.relation is not None else None,
                n.file,
                edges[n.name],
                n.tags,
                n.description,
            )
            for n in project.walk()
        )

    # --- plan and build -------------------------------------------------------------------------------------------

    def plan(self, **options: Unpack[PlanKeywords]) -> Plan:
        """What a build would do, and why. Starts no Java, unless a source can only be asked through Spark."""
        plan_arguments, _ = parse_options(options, "plan", frozenset())
        workspace = self._open()
        session = open_environment(workspace, plan_arguments.virtual_env)
        with self._open_spark(workspace, self._arguments) as (spark, _):
            planned = plan_workspace(workspace, plan_arguments.request, spark, plan_arguments.build_selection(session))
        enriched = enrich_plan(planned)
        document = encode_shown_plan(enriched, planned.seen, session)
        return Plan(
            enriched,
            document,
            plan_arguments,
            self._get_origin(workspace),
            list_definitions(planned.plan, planned.workspace.project),
        )

    def build(self, plan: Plan | None = None, **options: Unpack[BuildKeywords]) -> Result:
        """Run what changed, or what a plan shows.

        Failures are part of the result. Raises errors of the project and of the call, before anything has run; and
        `PlanOutOfDate` where the build would do something that the plan does not show.
        """
        started_at = time.monotonic()
        plan_arguments, run_arguments = parse_options(options, "build")
        run_arguments = replace(
            run_arguments,
            spark=run_arguments.spark or self._arguments.spark,
            listen=run_arguments.listen or self._arguments.listen,
        )
        workspace = self._open()
        if plan is not None:
            if type(plan_arguments)() != plan_arguments:
                raise CallError("a plan has its own options", hint="give what is to be planned to Project.plan")
            self._check_origin(plan, workspace)
            plan_arguments = plan._arguments

        def refuse(session: EnvironmentSession) -> None:
            narrowed = plan_arguments.build_selection(session)
            narrowed.apply(plan_arguments.request.select_names(workspace.project))
            if plan is not None:
                # Before the environment is made.
                _check_plan_current(plan, plan_workspace(workspace, plan_arguments.request, spark, narrowed))

        with (
            self._open_spark(workspace, run_arguments) as (spark, events),
            lock_environment_for_build(
                workspace, plan_arguments.virtual_env, run_arguments.take_over, validate=refuse
            ) as (session, token),
        ):
            planned = plan_workspace(workspace, plan_arguments.request, spark, plan_arguments.build_selection(session))
            if plan is not None:
                _check_plan_current(plan, planned)
            outcome = execute_plan(
                planned, run_arguments.build_options, started_at, session, token, events.forward_during
            )
            document = encode_build(planned, outcome, session)
        notes = (*([outcome.repaired] if outcome.repaired else []), *events.notes)
        return Result(outcome, document, self.root, spark.log, notes)

    def _get_origin(self, opening: Workspace) -> tuple[Path, str, str]:
        return self.root, opening.project.target, repr(sorted(self.vars.items()))

    def _check_origin(self, plan: Plan, opening: Workspace) -> None:
        origin = self._get_origin(opening)
        words = ("another project", "another target", "other variables")
        for what, actual, expected in zip(words, plan._origin, origin, strict=True):
            if actual != expected:
                # Variables may be secrets.
                which = "" if what == words[2] else f": {actual}, and not {expected}"
                raise CallError(f"the plan is of {what}{which}", hint="build it with the project that made it")

    # --- looking --------------------------------------------------------------------------------------------------

    def query(self, sql: str, *, limit: int = 100, virtual_env: str | None = None) -> Rows:
        """Run one query on Spark; it can only read. Models, seeds and sources are called as in models."""
        workspace = self._open()
        with self._open_spark(workspace, self._arguments, "query_") as (spark, _):
            result = run_query(workspace, QueryOptions(sql, limit, virtual_env), spark)
        return Rows(result.columns, result.rows)

    def freshness(
        self, *, select: str | Iterable[str] = (), exclude: str | Iterable[str] = (), virtual_env: str | None = None
    ) -> dict[str, Any]:
        """How fresh the sources are, as `sqb freshness --json` prints it."""
        workspace = self._open()
        options = FreshnessOptions(parse_selectors(select), parse_selectors(exclude), virtual_env)
        with self._open_spark(workspace, self._arguments, "freshness_") as (spark, _):
            return observe_freshness(workspace, options, spark).to_data()

    def history(
        self, run_id: str | None = None, *, node: str | None = None, limit: int = 20, virtual_env: str | None = None
    ) -> dict[str, Any]:
        """The runs of the target, newest first, as `sqb history --json` prints them."""
        return read_history(self._open(), HistoryOptions(run_id, node, limit, virtual_env)).to_data()

    @contextmanager
    def _open_spark(
        self, workspace: Workspace, run_arguments: RunArguments, kind: str = ""
    ) -> Iterator[tuple[OnDemandSpark, EventForwarder]]:
        """Spark for what is done within, if that needs it: ended after; and who hears of it."""
        stop = StopEvent(run_arguments.stop)
        events = EventForwarder(run_arguments.listen, stop)
        spark = OnDemandSpark(
            workspace, f"{kind}{generate_run_id()}", events.report_progress, stop, run_arguments.spark
        )
        try:
            yield spark, events
        except BaseException:
            stop.set()
            raise
        finally:
            spark.stop()
        if events.raised is not None:
            raise events.raised


def _check_plan_current(plan: Plan, planned: PlannedWorkspace) -> None:
    check_plan_current({n.name: n for n in plan.nodes}, plan._definitions, planned.plan, planned.workspace.project)


def plan(project: Project | str | Path = ".", **options: Unpack[PlanCallKeywords]) -> Plan:
    """Plan a project, named by its folder or opened: see `Project.plan`."""
    opened, rest = _resolve_project(project, options)
    return opened.plan(**rest)


def build(
    project: Project | str | Path = ".", plan: Plan | None = None, **options: Unpack[BuildCallKeywords]
) -> Result:
    """Build a project, named by its folder or opened: see `Project.build`."""
    opened, rest = _resolve_project(project, options)
    return opened.build(plan, **rest)


def _resolve_project(project: Project | str | Path, options: Mapping[str, Any]) -> tuple[Project, dict[str, Any]]:
    """The project that is meant, with what the call says of it, and the options that are not about that."""
    project_options = ("target", "vars", "spark", "listen")
    rest = {name: value for name, value in options.items() if name not in project_options}
    overrides = {name: value for name, value in options.items() if name in project_options and value is not None}
    if isinstance(project, Project):
        return project._copy_with(**overrides) if overrides else project, rest
    return Project(project, **overrides), rest
