"""A project as Python programs work with it: `sqb.Project(".")`, and the same in one call."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from sqb.api.listening import Hearing, Stop
from sqb.api.options import BuildOptions, How, Listen, PlanOptions, SparkSession, read_options
from sqb.api.out_of_date import definitions_of, refuse_out_of_date
from sqb.api.values import Node, Plan, Result, Rows
from sqb.build.asking import Asker
from sqb.build.run_id import new_run_id
from sqb.errors import CallError
from sqb.operations.building import carry_out
from sqb.operations.documents import build_document, shown_plan_document
from sqb.operations.environment import entered_for, environment_to_build, opened_in
from sqb.operations.freshness import observe_sources
from sqb.operations.history import history_document, recorded_runs
from sqb.operations.planning import Planned, plan_workspace, to_be_shown
from sqb.operations.querying import rows_of
from sqb.operations.variables import refuse_bad_values
from sqb.project.files import find_root
from sqb.workspace import Workspace, open_workspace

if TYPE_CHECKING:
    from sqb.build.engine import LazyEngine
    from sqb.environments.entering import Entered


class ProjectOptions(TypedDict, total=False):
    """Which project, where it is named by its folder."""

    target: str | None
    vars: Mapping[str, Any] | None


class PlanCall(ProjectOptions, PlanOptions, total=False):
    """What `sqb.plan` takes."""

    spark: SparkSession | None
    listen: Listen | None


class BuildCall(ProjectOptions, BuildOptions, total=False):
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
        refuse_bad_values(self.vars)
        self._target, self._how = target, How(spark=spark, listen=listen)

    def _with(
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
            spark=spark or self._how.spark,
            listen=listen or self._how.listen,
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
        edges = project.edges()
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

    def plan(self, **options: Unpack[PlanOptions]) -> Plan:
        """What a build would do, and why. Starts no Java, unless a source can only be asked through Spark."""
        asked, _ = read_options(options, "plan", frozenset())
        opening = self._open()
        entered = entered_for(opening, asked.virtual_env)
        with self._asking(opening, self._how) as (asker, _):
            made = plan_workspace(opening, asked.wanted, asker, asked.narrowed(entered))
        shown = to_be_shown(made)
        document = shown_plan_document(shown, made.seen, entered)
        return Plan(shown, document, asked, self._origin(opening), definitions_of(made.plan, made.workspace.project))

    def build(self, plan: Plan | None = None, **options: Unpack[BuildOptions]) -> Result:
        """Run what changed, or what a plan shows.

        Failures are part of the result. Raises errors of the project and of the call, before anything has run; and
        `PlanOutOfDate` where the build would do something that the plan does not show.
        """
        began = time.monotonic()
        asked, how = read_options(options, "build")
        how = replace(how, spark=how.spark or self._how.spark, listen=how.listen or self._how.listen)
        opening = self._open()
        if plan is not None:
            if type(asked)() != asked:
                raise CallError("a plan has its own options", hint="give what is to be planned to Project.plan")
            self._refuse_other(plan, opening)
            asked = plan._asked

        def refuse(entered: Entered) -> None:
            narrowed = asked.narrowed(entered)
            narrowed.names(asked.wanted.names(opening.project))
            if plan is not None:
                # Before the environment is made.
                _refuse_changed(plan, plan_workspace(opening, asked.wanted, asker, narrowed))

        with (
            self._asking(opening, how) as (asker, hearing),
            environment_to_build(opening, asked.virtual_env, how.take_over, refuse=refuse) as (entered, token),
        ):
            made = plan_workspace(opening, asked.wanted, asker, asked.narrowed(entered))
            if plan is not None:
                _refuse_changed(plan, made)
            built = carry_out(made, how.building, began, entered, token, hearing.during)
            document = build_document(made, built, entered)
        notes = (*([built.repaired] if built.repaired else []), *hearing.notes)
        return Result(built, document, self.root, asker.log, notes)

    def _origin(self, opening: Workspace) -> tuple[Path, str, str]:
        return self.root, opening.project.target, repr(sorted(self.vars.items()))

    def _refuse_other(self, plan: Plan, opening: Workspace) -> None:
        mine = self._origin(opening)
        words = ("another project", "another target", "other variables")
        for what, its, own in zip(words, plan._origin, mine, strict=True):
            if its != own:
                # Variables may be what nobody else should read.
                which = "" if what == words[2] else f": {its}, and not {own}"
                raise CallError(f"the plan is of {what}{which}", hint="build it with the project that made it")

    # --- looking --------------------------------------------------------------------------------------------------

    def query(self, sql: str, *, limit: int = 100, virtual_env: str | None = None) -> Rows:
        """Run one query on Spark; it can only read. Models, seeds and sources are called as in models."""
        workspace, lake = opened_in(self._open(), virtual_env, as_shown=True)
        with self._asking(workspace, self._how, "query_") as (asker, _):

            def engine_for(functions: Collection[str]) -> LazyEngine:
                return asker.engine(functions=functions)

            columns, rows = rows_of(sql, limit, workspace, lake, engine_for)
        return Rows(columns, tuple(rows))

    def freshness(
        self, *, select: str | Iterable[str] = (), exclude: str | Iterable[str] = (), virtual_env: str | None = None
    ) -> dict[str, Any]:
        """How fresh the sources are, as `sqb freshness --json` prints it."""
        asked, _ = read_options({"select": select, "exclude": exclude}, "freshness", frozenset())
        workspace, lake = opened_in(self._open(), virtual_env)
        with self._asking(workspace, self._how, "freshness_") as (asker, _):
            return observe_sources(workspace, lake, asked.select, asked.exclude, asker).to_data()

    def history(
        self, run_id: str | None = None, *, node: str | None = None, limit: int = 20, virtual_env: str | None = None
    ) -> dict[str, Any]:
        """The runs of the target, newest first, as `sqb history --json` prints them."""
        workspace, lake = opened_in(self._open(), virtual_env)
        runs = recorded_runs(workspace, lake, run_id, node, limit)
        return history_document(workspace.project.target, runs)

    @contextmanager
    def _asking(self, workspace: Workspace, how: How, kind: str = "") -> Iterator[tuple[Asker, Hearing]]:
        """Spark for what is done within, if that needs it: ended after; and who hears of it."""
        stop = Stop(how.stop)
        hearing = Hearing(how.listen, stop)
        asker = Asker(workspace, f"{kind}{new_run_id()}", hearing.progress, stop, how.spark)
        try:
            yield asker, hearing
        except BaseException:
            stop.set()
            raise
        finally:
            asker.stop()
        if hearing.raised is not None:
            raise hearing.raised


def _refuse_changed(plan: Plan, made: Planned) -> None:
    refuse_out_of_date({n.name: n for n in plan.nodes}, plan._definitions, made.plan, made.workspace.project)


def plan(project: Project | str | Path = ".", **options: Unpack[PlanCall]) -> Plan:
    """Plan a project, named by its folder or opened: see `Project.plan`."""
    found, rest = _project(project, options)
    return found.plan(**rest)


def build(project: Project | str | Path = ".", plan: Plan | None = None, **options: Unpack[BuildCall]) -> Result:
    """Build a project, named by its folder or opened: see `Project.build`."""
    found, rest = _project(project, options)
    return found.build(plan, **rest)


def _project(project: Project | str | Path, options: Mapping[str, Any]) -> tuple[Project, dict[str, Any]]:
    """The project that is meant, with what the call says of it, and the options that are not about that."""
    own = ("target", "vars", "spark", "listen")
    rest = {name: value for name, value in options.items() if name not in own}
    given = {name: value for name, value in options.items() if name in own and value is not None}
    if isinstance(project, Project):
        return project._with(**given) if given else project, rest
    return Project(project, **given), rest
