"""A project as Python programs work with it: `sqb.Project(".")`, and the same in one call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from sqb.api.listener import EventForwarder, StopEvent
from sqb.api.options import (
    CALLER_NAMES,
    BuildKeywords,
    Caller,
    DiffKeywords,
    Listen,
    LoadKeywords,
    PlanKeywords,
    PromoteKeywords,
    SparkSession,
    parse_options,
    parse_words,
)
from sqb.api.session import close_session, find_session, open_session
from sqb.api.stale_plan import check_plan_current, list_definitions
from sqb.api.table import Table
from sqb.api.values import Difference, Node, Plan, Result, Rows, find_node
from sqb.build.spark_engine import OnDemandSpark
from sqb.errors.call import CallError
from sqb.operations.build import BuildOptions, BuildOutcome, build_project
from sqb.operations.inspect.freshness import FreshnessOptions, observe_freshness
from sqb.operations.inspect.history import HistoryOptions, read_history
from sqb.operations.inspect.query import QueryOptions, run_query
from sqb.operations.plan import PlannedWorkspace, PlanOptions, plan_project, validate_values
from sqb.project.files import find_root
from sqb.workspace import Workspace, open_workspace

if TYPE_CHECKING:
    from sqb.api.dbt import Dbt
    from sqb.api.engine import Engine
    from sqb.api.state import State


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

    A project holds nothing open but what `session` opens, so one can be used by many threads. `spark` is a session to
    work on, classic or Spark Connect; without one, Spark is started where it is needed and ended again. `listen` hears
    of everything.
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
        self._target, self._caller = target, Caller(spark, listen)

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
            spark=spark or self._caller.spark,
            listen=listen or self._caller.listen,
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
        from sqb.api.node_checks import list_checks  # a build does not describe checks

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
                str(n.settings.get("owner") or ""),
                list_checks(project.nodes.get(n.name)),
            )
            for n in project.walk()
        )

    def __getitem__(self, name: str) -> Table:
        """A model, seed or source by its name, or by what comes last in it; `KeyError` where there is none."""
        project = self._open().project
        tables = [Table(n.name, str(n.relation), self._read_frame) for n in project]
        tables += [Table(e.name, str(e.relation), self._read_frame) for e in project.externals.values()]
        return find_node(name, tables)

    def _read_frame(self, name: str, virtual_env: str | None) -> Any:
        from sqb.operations.inspect.frame import open_frame

        workspace, session = self._open(), self.session()
        spark = OnDemandSpark(workspace, lambda text: None, "query_", external_session=session)
        return open_frame(workspace, name, virtual_env, spark)

    def session(self) -> Any:
        """The session that was handed in, else one of the project's own Spark, which stays until `close`.

        Everything that follows in this process works on it.
        """
        return self._caller.spark or open_session(self._open(), lambda text: None)

    def close(self) -> None:
        """End the Spark that `session` has started; it ends with the process anyway."""
        close_session(self.root)

    # --- plan and build -------------------------------------------------------------------------------------------

    def plan(self, **options: Unpack[PlanKeywords]) -> Plan:
        """What a build would do, and why. Starts no Java, unless a source can only be asked through Spark."""
        parsed = parse_options(PlanOptions, options, "plan")
        workspace = self._open()
        with self._open_spark(workspace) as (spark, _):
            shown = plan_project(workspace, parsed, spark)
        definitions = list_definitions(shown.planned.plan, shown.planned.workspace.project)
        return Plan(shown.plan, shown.to_data(), parsed, self._get_origin(workspace), definitions)

    def explain(self, name: str, **options: Unpack[PlanKeywords]) -> dict[str, Any]:
        """One node of a plan in full, as `sqb plan NAME --explain --json` prints it."""
        from sqb.operations.inspect.explain import ExplainOptions, explain_node

        parsed = parse_options(ExplainOptions, {**options, "names": name}, "explain")
        workspace = self._open()
        with self._open_spark(workspace) as (spark, _):
            return explain_node(workspace, parsed, spark).to_data()

    def build(self, plan: Plan | None = None, **options: Unpack[BuildKeywords]) -> Result:
        """Run what changed, or what a plan shows.

        Failures are part of the result. Raises errors of the project and of the call, before anything has run; and
        `PlanOutOfDate` where the build would do something that the plan does not show.
        """
        parsed = parse_options(BuildOptions, options, "build", CALLER_NAMES)
        workspace = self._open()
        if plan is not None:
            if parsed.plan_options != PlanOptions():
                raise CallError("a plan has its own options", hint="give what is to be planned to Project.plan")
            self._check_origin(plan, workspace)
            parsed = parsed.replace_plan_options(plan._options)

        def check(planned: PlannedWorkspace) -> None:
            if plan is not None:
                project = planned.workspace.project
                check_plan_current({n.name: n for n in plan.nodes}, plan._definitions, planned.plan, project)

        caller = parse_options(Caller, {n: value for n, value in options.items() if n in CALLER_NAMES}, "build")
        with self._open_spark(workspace, caller=caller) as (spark, events):
            outcome = build_project(workspace, parsed, spark, events.forward_during, check)
            return self._build_result(outcome, events)

    def load(self, *names: str, **options: Unpack[LoadKeywords]) -> Result:
        """Run loaders alone: those that are named, by their names or by their sources, or all of them."""
        from sqb.operations.load import LoadOptions, load_sources

        parsed = parse_options(LoadOptions, {**options, "names": names}, "load")
        workspace = self._open()
        with self._open_spark(workspace) as (spark, events):
            outcome = load_sources(workspace, parsed, spark, events.forward_during)
            return self._build_result(outcome, events)

    def test(
        self,
        *,
        select: str | Iterable[str] = (),
        exclude: str | Iterable[str] = (),
        force: bool = False,
        virtual_env: str | None = None,
        selector: str | None = None,
    ) -> dict[str, Any]:
        """Run the unit tests due: what `sqb test --json` prints; failures do not raise."""
        from sqb.operations.unit_tests import UnitTestOptions, run_unit_tests

        options = UnitTestOptions(parse_words(select), parse_words(exclude), force, virtual_env, selector)
        workspace = self._open()
        with self._open_spark(workspace, "test_") as (spark, events):
            return run_unit_tests(workspace, options, spark, events.forward_during).to_data()

    def _build_result(self, outcome: BuildOutcome, events: EventForwarder) -> Result:
        notes = (*outcome.notes, *events.notes)
        return Result(outcome, outcome.to_data(), self.root, outcome.planned.spark.log, notes)

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

    def query(
        self,
        sql: str,
        *,
        limit: int | None = 100,
        virtual_env: str | None = None,
        output: str | Path | None = None,
    ) -> Rows:
        """Run one query on Spark; it can only read. Models, seeds and sources are called as in models.

        With `output`, the rows go into that .parquet, .csv or .jsonl file.
        """
        options = QueryOptions(sql, limit, virtual_env, Path(output) if output is not None else None)
        workspace = self._open()
        with self._open_spark(workspace, "query_") as (spark, _):
            result = run_query(workspace, options, spark)
        return Rows(result.columns, result.rows)

    def show(
        self,
        name: str | None = None,
        *,
        inline: str | None = None,
        limit: int | None = 5,
        virtual_env: str | None = None,
        next_window: bool = False,
        start_cursor: str | None = None,
        end_cursor: str | None = None,
    ) -> Rows:
        """Rows of a model as a build would make them now, or of a query over such; nothing is written."""
        from sqb.operations.inspect.show import ShowOptions, show_rows

        options = ShowOptions(name, inline, limit, virtual_env, None, next_window, start_cursor, end_cursor)
        workspace = self._open()
        with self._open_spark(workspace, "show_") as (spark, _):
            result = show_rows(workspace, options, spark)
        return Rows(result.columns, result.rows)

    def freshness(
        self,
        *,
        select: str | Iterable[str] = (),
        exclude: str | Iterable[str] = (),
        virtual_env: str | None = None,
        selector: str | None = None,
    ) -> dict[str, Any]:
        """How fresh the sources are, as `sqb freshness --json` prints it."""
        workspace = self._open()
        options = FreshnessOptions(parse_words(select), parse_words(exclude), virtual_env, selector)
        with self._open_spark(workspace, "freshness_") as (spark, _):
            return observe_freshness(workspace, options, spark).to_data()

    def history(
        self, run_id: str | None = None, *, node: str | None = None, limit: int = 20, virtual_env: str | None = None
    ) -> dict[str, Any]:
        """The runs of the target, newest first, as `sqb history --json` prints them."""
        return read_history(self._open(), HistoryOptions(run_id, node, limit, virtual_env)).to_data()

    def lineage(self, name: str | None = None, *, virtual_env: str | None = None) -> dict[str, Any]:
        """What a table or column is made of and used for, or all tables, as `sqb lineage --json` prints it."""
        from sqb.operations.inspect.lineage import LineageOptions, trace_lineage

        return trace_lineage(self._open(), LineageOptions(name, virtual_env)).to_data()

    def docs(
        self, output: str | Path | None = None, *, sample: int = 0, virtual_env: str | None = None
    ) -> dict[str, Any]:
        """All that is known of the project, as `sqb docs build --json` prints it; with `output` also as pages there."""
        from sqb.operations.docs import DocsOptions, build_docs

        folder = Path(output) if output is not None else None
        return build_docs(self._open(), DocsOptions(folder, virtual_env, sample)).to_data()

    def validate(self, *, virtual_env: str | None = None, spark: bool = False) -> dict[str, Any]:
        """All mistakes that can be known without running anything, as `sqb validate --json` prints them.

        With `spark`, Spark analyses every query too.
        """
        from sqb.operations.inspect.validate import Opening, ValidateOptions, validate_project

        opening = Opening(self.root, self._target, self.vars)
        caller = self._caller

        def create(workspace: Workspace) -> OnDemandSpark:
            return OnDemandSpark(workspace, lambda text: None, "validate_", external_session=caller.spark)

        return validate_project(opening, ValidateOptions(virtual_env, spark), create).to_data()

    def format(self, *names: str, check: bool = False) -> dict[str, Any]:
        """Lay out the SQL of models, by name, file or folder; with `check` only say which are not in that form."""
        from sqb.operations.format import FormatOptions, format_project

        return format_project(self.root, FormatOptions(names, check)).to_data()

    def lint(self, *names: str) -> dict[str, Any]:
        """What the project's rules find in models, by name, file or folder; all where none is named."""
        from sqb.operations.inspect.lint import LintOptions, lint_project

        return lint_project(self._open, LintOptions(names)).to_data()

    def list(
        self,
        *,
        select: str | Iterable[str] = (),
        exclude: str | Iterable[str] = (),
        selector: str | None = None,
        virtual_env: str | None = None,
        resource_types: str | Iterable[str] = (),
    ) -> dict[str, Any]:
        """The nodes that selectors mean, each after what it reads, as `sqb list --json` prints them."""
        from sqb.operations.inspect.list import ListOptions, list_nodes

        wanted = parse_words(select), parse_words(exclude)
        options = ListOptions(*wanted, selector, virtual_env, parse_words(resource_types))
        workspace = self._open()
        with self._open_spark(workspace, "list_") as (spark, _):
            return list_nodes(workspace, options, spark).to_data()

    def compile(
        self,
        *,
        select: str | Iterable[str] = (),
        exclude: str | Iterable[str] = (),
        virtual_env: str | None = None,
        selector: str | None = None,
    ) -> dict[str, Any]:
        """The SQL of models, with references resolved, as `sqb compile --json` prints it."""
        from sqb.operations.inspect.compile import CompileOptions, compile_nodes

        options = CompileOptions(parse_words(select), parse_words(exclude), virtual_env, selector)
        return compile_nodes(self._open(), options).to_data()

    def diff(self, name: str | None = None, **options: Unpack[DiffKeywords]) -> Difference:
        """How what is built differs from what a build would make of it, as `sqb diff --json` prints it.

        Or from what another target has, from a snapshot, or between two virtual environments.
        """
        from sqb.operations.inspect.diff import DiffOptions, diff

        parsed = parse_options(DiffOptions, {**options, "name": name}, "diff")
        workspace = self._open()
        with self._open_spark(workspace, "diff_") as (spark, _):
            return Difference(diff(workspace, parsed, spark).to_data())

    # --- virtual environments, the lake, the engine, dbt ----------------------------------------------------------

    def promote(self, source: str, to: str, **options: Unpack[PromoteKeywords]) -> dict[str, Any]:
        """Make one virtual environment show what another one shows, as `sqb promote --json` prints it."""
        from sqb.operations.environments.promotion import PromoteOptions, promote_environment

        parsed = parse_options(PromoteOptions, {**options, "source": source, "to": to}, "promote")
        return promote_environment(self._open(), parsed).to_data()

    def rollback(
        self,
        virtual_env: str | None = None,
        *,
        checkpoint: str | None = None,
        dry_run: bool = False,
        take_over: bool = False,
    ) -> dict[str, Any]:
        """Make a virtual environment show what it showed before, or at a checkpoint: see `sqb rollback --json`."""
        from sqb.operations.environments.promotion import RollbackOptions, roll_back_environment

        options = RollbackOptions(virtual_env, checkpoint, dry_run, take_over)
        return roll_back_environment(self._open(), options).to_data()

    def drop(self, *names: str, dry_run: bool = False) -> dict[str, Any]:
        """Drop tables of models that are gone, those named or all, as `sqb drop --yes --json` prints it."""
        from sqb.operations.drop import DropOptions, drop_orphans

        return drop_orphans(self._open(), DropOptions(names, dry_run), lambda question: None).to_data()

    def janitor(self, *, dry_run: bool = False) -> dict[str, Any]:
        """Remove what is not needed any more from the lake, as `sqb janitor --json` prints it."""
        from sqb.operations.janitor import JanitorOptions, clean_lake

        result = clean_lake(self._open(), JanitorOptions(dry_run), lambda action: None)
        if result.interrupted:
            raise KeyboardInterrupt
        return result.to_data()

    @property
    def state(self) -> State:
        """The database of virtual environments: what `sqb state` does."""
        from sqb.api.state import State

        return State(self._open, self._caller.listen)

    @property
    def engine(self) -> Engine:
        """The Spark that stays between builds: what `sqb engine` does."""
        from sqb.api.engine import Engine

        return Engine(self.root, self._target, self._caller.listen)

    @property
    def dbt(self) -> Dbt:
        """The dbt project beside this one: what `sqb dbt` does."""
        from sqb.api.dbt import Dbt

        return Dbt(self.root, self._target, self._caller)

    @contextmanager
    def _open_spark(
        self, workspace: Workspace, kind: str = "", caller: Caller | None = None
    ) -> Iterator[tuple[OnDemandSpark, EventForwarder]]:
        """Spark for what is done within, if that needs it: ended after; and who hears of it."""
        caller = self._caller.override(caller or Caller())
        stop = StopEvent(caller.stop)
        events = EventForwarder(caller.listen, stop)
        session = caller.spark or find_session(workspace)
        spark = OnDemandSpark(workspace, events.report_progress, kind, stop, session)
        try:
            yield spark, events
        except BaseException:
            stop.set()
            raise
        finally:
            spark.stop()
        if events.raised is not None:
            raise events.raised


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
