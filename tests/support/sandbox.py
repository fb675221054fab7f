"""A project that a test may do anything to: write its files, plan, build, and change its lake from outside."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import Row

from sqb.build.context import BuildSettings
from sqb.build.events import Event, NodeDone, Notice
from sqb.build.failpoints import Announce, ignore_step
from sqb.build.history.freshness import list_settled_sources
from sqb.build.observe.lake import LakeState
from sqb.build.observe.mistakes import list_mistakes
from sqb.build.observe.sources import observe_sources
from sqb.build.result import BuildResult, build_empty_result, generate_run_id
from sqb.build.rounds import run_rounds
from sqb.build.scheduler import Build
from sqb.build.unit_tests.passed_cache import list_due_tests
from sqb.environments.build.finalize import EnvironmentResult
from sqb.environments.session import EnvironmentSession, open_session, open_workspace_store
from sqb.environments.state.store import Store
from sqb.errors.base import SqbError
from sqb.lake.iceberg import IcebergLake
from sqb.lake.port import STAGE_SCHEMA, TableState
from sqb.names import Relation
from sqb.operations.build import rename_tables
from sqb.operations.environment import (
    BuildEnvironment,
    lock_environment_for_build,
    open_environment,
)
from sqb.operations.plan import decide_plan, validate_window
from sqb.plan.defer import defer_project
from sqb.plan.model import Options, Plan
from sqb.project.config.connections.lake_location import LakeLocation
from sqb.selection.select import Surroundings
from sqb.selection.select import select as select_nodes
from sqb.spark.data.checksum import build_content_columns, format_content
from sqb.spark.engine import Engine
from sqb.workspace import Workspace, open_workspace
from support.engine import LakeSessions, SharedEngine

PROJECT_FILE = "sqlbuild_project.toml"
SandboxMaker = Callable[[Path], "Sandbox"]


class Sandbox:
    """A project folder and its lake, built in this process on the shared Spark."""

    def __init__(self, folder: Path, engine: Engine, place: LakeLocation | None = None) -> None:
        self.folder = folder
        self.place = place or LakeLocation.embedded(folder / "lake" / "catalog.db", folder / "lake" / "data")
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / PROJECT_FILE).exists():
            self.write(PROJECT_FILE, 'name = "sandbox"\n')
        # What the last build said besides its result.
        self.notices: list[str] = []
        # What the last build made of its environment.
        self.settled: EnvironmentResult | None = None
        # Whether the last plan had to ask Spark.
        self.asked = False
        self._sessions = LakeSessions(engine, self.place)

    def close(self) -> None:
        shutil.rmtree(self.folder / "lake", ignore_errors=True)

    # --- files ----------------------------------------------------------------------------------------------------

    def write(self, path: str, text: str) -> None:
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def edit(self, path: str, old: str, new: str) -> None:
        text = (self.folder / path).read_text()
        assert old in text, f"{path} does not say {old!r}"
        self.write(path, text.replace(old, new))

    def remove(self, path: str) -> None:
        (self.folder / path).unlink()

    # --- plan and build -------------------------------------------------------------------------------------------

    def plan(self, *, virtual_env: str | None = None, **options: Any) -> Plan:
        return self.planned(virtual_env=virtual_env, **options)[3]

    def planned(
        self, *, virtual_env: str | None = None, **options: Any
    ) -> tuple[Workspace, IcebergLake, LakeState, Plan]:
        """A plan, and all that it was made from."""
        workspace = self._opened(options)
        return self._planned(open_environment(workspace, virtual_env), **options)

    def build(
        self,
        *,
        concurrency: int = 2,
        fail_fast: bool = False,
        announce: Announce = ignore_step,
        stop: threading.Event | None = None,
        virtual_env: str | None = None,
        take_over: bool = False,
        allow_data_loss: bool = False,
        **options: Any,
    ) -> BuildResult:
        """What `sqb build` does, less the printing."""
        self.notices.clear()
        opened = self._opened(options)
        with lock_environment_for_build(opened, virtual_env, take_over, announce) as entered:
            planned = self._planned(entered, **options)
            messages = list_mistakes(planned[0], planned[2], planned[3])
            settings = BuildSettings(
                generate_run_id(), concurrency, fail_fast, announce=announce, allow_data_loss=allow_data_loss
            )
            if stop is not None:
                settings.stop = stop
            self.notices += rename_tables(planned[0], planned[1], announce)
            if not planned[3].nothing_to_do:
                entered = entered.begin_build()
            result, states, externals = self._carried_out(*planned, settings, entered)
            self.settled = entered.finalize_build(result, states, externals, announce)
        for node in result.nodes:
            if node.error is not None:
                # Shown by pytest when the test fails, where the result itself is cut off.
                print(f"{node.planned.name}: {node.error!r} from {node.error.__cause__!r}")
        _check_told(messages, result, planned[0])
        return result

    def _carried_out(
        self,
        workspace: Workspace,
        lake: IcebergLake,
        seen: LakeState,
        plan: Plan,
        settings: BuildSettings,
        entered: BuildEnvironment,
    ) -> tuple[BuildResult, Mapping[Relation, TableState], Mapping[str, Relation]]:
        due = list_due_tests(workspace, lake, seen, plan)
        if plan.nothing_to_do and not due:
            rows = list_settled_sources(workspace.project, seen.observed, "none")
            if rows:
                lake.state.append_freshness(rows)
            return build_empty_result(plan, "none", 0.0), seen.states, seen.externals
        engine = SharedEngine(self._sessions, workspace)
        try:
            build = Build(workspace, lake, seen, plan, engine, settings, self._hear, due)  # type: ignore[arg-type]
            result, build = run_rounds(build, partial(self._plan_again, workspace, lake, plan, entered))
            return result, build.state.states, build.state.externals
        finally:
            engine.stop()

    def _plan_again(
        self,
        workspace: Workspace,
        lake: IcebergLake,
        plan: Plan,
        entered: BuildEnvironment,
        names: frozenset[str],
    ) -> tuple[LakeState, Plan]:
        seen = self._with_sources(workspace, lake, entered.observe(workspace), names)
        return seen, decide_plan(workspace, lake, seen, replace(plan.options, selected=names))

    def due_tests(self, **options: Any) -> list[str]:
        """The unit tests that the next build would run."""
        return [test.name for test in list_due_tests(*self.planned(**options))]

    def _hear(self, event: Event) -> None:
        if isinstance(event, Notice):
            self.notices.append(event.text)

    def _opened(self, options: dict[str, Any]) -> Workspace:
        return open_workspace(self.folder, options.pop("target", None), options.pop("vars", None))

    def _planned(
        self,
        entered: BuildEnvironment,
        select: Sequence[str] = (),
        exclude: Sequence[str] = (),
        force: bool = False,
        full_refresh: bool = False,
        start_cursor: str | None = None,
        end_cursor: str | None = None,
        include_stale_upstreams: bool = False,
        changes_only: bool = False,
    ) -> tuple[Workspace, IcebergLake, LakeState, Plan]:
        workspace, lake = entered.workspace, entered.lake
        project = workspace.project
        edges = project.list_edges() if project.python else None
        chosen = select_nodes(project.graph, Surroundings(tuple(project.externals), edges=edges), select, exclude)
        selected = None if chosen.everything else chosen.names
        names = entered.narrow_selection(selected, include_stale_upstreams, changes_only)
        entered.check_view_conflicts(names)
        seen = self._with_sources(workspace, lake, entered.observe(workspace), names)
        wanted = Options(names, force, full_refresh, start_cursor, end_cursor)
        validate_window(project, wanted)
        workspace = replace(workspace, project=defer_project(project, seen.observed, wanted.selected))
        return workspace, lake, seen, decide_plan(workspace, lake, seen, wanted)

    def _with_sources(
        self, workspace: Workspace, lake: IcebergLake, seen: LakeState, names: Collection[str] | None
    ) -> LakeState:
        engine = SharedEngine(self._sessions, workspace)
        try:
            return observe_sources(workspace, lake, seen, engine.session, names)
        finally:
            self.asked = engine.started
            engine.stop()

    # --- virtual environments -------------------------------------------------------------------------------------

    def store(self) -> Store:
        """What is known of the project's environments; made ready if it is not."""
        store = open_workspace_store(open_workspace(self.folder, None, None))
        store.prepare()
        return store

    def shown(self, environment: str) -> dict[str, list[tuple[Any, ...]]]:
        """The rows of every model as readers of an environment see them, by the names of their files."""
        entered = self.entered(environment)
        bound = [r.binding for r in entered.store.read_refs(environment).values() if r.binding.relation is not None]
        return {b.name.rpartition(".")[2]: self.rows(str(entered.get_view(b.logical))) for b in bound}

    def entered(self, environment: str | None = None) -> EnvironmentSession:
        """An environment as a command finds it."""
        return open_session(open_workspace(self.folder, None, None), environment)

    # --- the lake -------------------------------------------------------------------------------------------------

    def sql(self, statement: str) -> list[Row]:
        """Run SQL on the lake, as somebody who does not know sqb would."""
        (self.folder / "lake").mkdir(exist_ok=True)
        session = self._sessions.take()
        try:
            return session.sql(statement).collect()
        finally:
            self._sessions.give_back(session)

    def rows(self, relation: str) -> list[tuple[Any, ...]]:
        """The rows of a relation as a reader sees them, in order."""
        return ordered_rows(self.sql(f"SELECT * FROM {_quoted(relation)}"))

    def columns(self, relation: str) -> list[str]:
        """The columns of a relation with their types."""
        described = self.sql(f"DESCRIBE {_quoted(relation)}")
        names = [row["col_name"] for row in described]
        end = next((i for i, name in enumerate(names) if name == "" or name.startswith("#")), len(names))
        return [f"{row['col_name']} {row['data_type']}" for row in described[:end]]

    def content(self, relation: str) -> str:
        """The content of a relation, computed from its rows."""
        session = self._sessions.take()
        try:
            frame = session.table(_quoted(relation))
            return format_content(frame.agg(*build_content_columns(frame.schema)).collect()[0].asDict())
        finally:
            self._sessions.give_back(session)

    def lake(self) -> IcebergLake:
        """The lake as a build opens it, without what earlier builds remembered."""
        return IcebergLake(self.place)

    def relations(self) -> list[str]:
        """Everything in the catalog."""
        return sorted(str(relation) for relation in self.lake().list_pointers())

    def stages(self) -> list[str]:
        """Stages that a build left behind."""
        return [name for name in self.relations() if name.startswith(f"{STAGE_SCHEMA}.")]

    def identities(self) -> dict[str, dict[str, str]]:
        """What every relation's last commit says of itself, less what is different in every run."""
        lake = self.lake()
        pointers = lake.list_pointers()
        states = lake.read_tables(p for r, p in pointers.items() if "_sqlbuild" not in (r.schema[:9], r.name[:9]))
        remaining = (
            "sqb.model",
            "sqb.local_hash",
            "sqb.version_hash",
            "sqb.query_hash",
            "sqb.config_hash",
            "sqb.content",
        )
        return {
            str(relation): {k: v for k, v in state.identity.to_properties().items() if k in remaining}
            for relation, state in sorted(states.items(), key=lambda item: str(item[0]))
        }


def names_by_status(result: BuildResult) -> dict[str, list[str]]:
    """The names of nodes by what became of them."""
    by_name: dict[str, list[str]] = {}
    for node in result.nodes:
        by_name.setdefault(node.status, []).append(node.planned.name)
    return {status: sorted(names) for status, names in by_name.items()}


def ordered_rows(rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Rows as plain values that YAML can write, in an order of their own."""
    plain = [tuple(plain_value(value) for value in row) for row in rows]
    return sorted(plain, key=lambda row: [(value is not None, str(type(value)), str(value)) for value in row])


def plain_value(value: Any) -> Any:
    match value:
        case Row():
            return {name: plain_value(item) for name, item in value.asDict().items()}
        case dict():
            return {name: plain_value(item) for name, item in value.items()}
        case list() | tuple():
            return [plain_value(item) for item in value]
        case Decimal() | datetime() | date():
            return str(value)
        case _:
            return value


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Environment variables for a while."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _quoted(relation: str) -> str:
    result = Relation.parse(relation)
    return f"`{result.schema}`.`{result.name}`"


def _check_told(messages: list[SqbError], result: BuildResult, workspace: Workspace) -> None:
    """What would have been told before the build was surely wrong: no model that it names could be built."""
    built = {workspace.project.nodes[n.planned.name].file for n in result.nodes if _is_built(n, workspace)}
    false_alarms = [str(error) for error in messages if error.at is not None and error.at.file in built]
    assert false_alarms == []


def _is_built(done: NodeDone, workspace: Workspace) -> bool:
    return done.status == "ok" and done.planned.name in workspace.project.nodes
