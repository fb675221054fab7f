"""`sqb plan` and `sqb build`."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqb.build.asking import Asker
from sqb.build.freshness import observed_sources
from sqb.build.observe import Look, open_lake
from sqb.build.passed_tests import due_tests
from sqb.build.recovery import repair, unrecorded
from sqb.build.result import BuildResult, nothing_ran
from sqb.cli.environment import (
    Narrowed,
    bound_definitions,
    entered_for,
    environment_data,
    environment_to_build,
    look_at,
    reckoning,
    shown,
    told,
    told_after,
    versioned,
)
from sqb.cli.window import refuse_bad_window
from sqb.compiled import Project, UnitTest
from sqb.console.lines import (
    changed_names,
    code_diff,
    done_line,
    plan_lines,
    query_diff,
    skipped_lines,
    summary_line,
)
from sqb.console.paint import Paint, terminal_width
from sqb.errors import CallError, SqbError, UnitTestFailed
from sqb.graph import select
from sqb.lake.iceberg import IcebergLake
from sqb.plan.decide import make_plan
from sqb.plan.defer import deferred
from sqb.plan.values import Options, Plan
from sqb.project.git import git_commit
from sqb.workspace import Workspace, open_workspace

if TYPE_CHECKING:
    from sqb.build.events import UnitTestDone
    from sqb.console.live import Listener
    from sqb.environments.building import Settled
    from sqb.environments.entering import Entered
    from sqb.lake.port import TableState
    from sqb.names import Relation

_PLAN_KEYS = ("name", "type", "kind", "relation", "action", "run_type", "reason", "detail", "incremental", "upstream")
_EXPLAIN_KEYS = ("root", "changes")
_BUILD_KEYS = (*_PLAN_KEYS, "root", "status", "rows", "seconds", "snapshot_id", "error", "failures")


def opened(project_dir: Path, target: str | None, variables: str | None) -> Workspace:
    """The workspace that the common options name."""
    return open_workspace(project_dir, target, parse_variables(variables))


def parse_variables(text: str | None) -> dict[str, Any]:
    """The values in `--vars`: a JSON object, or name=value pairs."""
    if not text:
        return {}
    if text.lstrip().startswith("{"):
        try:
            found = json.loads(text)
        except ValueError as error:
            raise CallError(f"--vars is not JSON: {error}", hint="""write --vars '{"name": "value"}'""") from error
        return {name: _checked(name, value) for name, value in found.items()}
    values: dict[str, Any] = {}
    for pair in re.split(r",(?=\s*\w+=)", text):
        name, equals, value = pair.strip().partition("=")
        if not equals or not name.isidentifier():
            raise CallError(f'--vars: "{pair}" is not name=value', hint="""or write --vars '{"name": "value"}'""")
        values[name] = _typed(value)
    return values


def _typed(text: str) -> Any:
    """The value of `name=value`: a number or true/false where it reads as one, else the text as it stands."""
    try:
        value = json.loads(text, parse_constant=lambda word: word)
    except ValueError:
        return text
    return value if isinstance(value, int | float | bool) else text


def _checked(name: str, value: Any) -> Any:
    parts = value if isinstance(value, list) else [value]
    if any(isinstance(part, list | dict) for part in parts):
        raise CallError(
            f"--vars: {name} must be text, a number, true/false, null or a list of these",
            hint="""such as --vars '{"day": "2024-01-31", "countries": ["de", "fr"]}'""",
        )
    return value


def _selected(workspace: Workspace, select_: tuple[str, ...], exclude: tuple[str, ...]) -> frozenset[str] | None:
    """The names of the nodes that are selected; None for all of them."""
    project = workspace.project
    edges = project.edges() if project.python else None
    chosen = select(project.graph, project.externals, select_, exclude, edges)
    return None if chosen.everything else chosen.names


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, and everything that it was made from."""

    workspace: Workspace
    lake: IcebergLake
    seen: Look
    plan: Plan
    asker: Asker
    # The look in which new versions stand as what they begin as.
    reckoned: Look


def plan_workspace(
    workspace: Workspace,
    select_: tuple[str, ...],
    exclude: tuple[str, ...],
    force: bool,
    full_refresh: bool,
    window: tuple[str | None, str | None] = (None, None),
    narrowed: Narrowed = Narrowed(),
    asker: Asker | None = None,
) -> Planned:
    """Plan what is selected; `asker` is Spark that the command may have started already."""
    entered = narrowed.entered
    if entered is not None:
        workspace = entered.workspace
    project = workspace.project
    names = narrowed.names(_selected(workspace, select_, exclude))
    lake: IcebergLake = entered.lake if entered is not None else open_lake(workspace)
    asker = asker or new_asker(workspace)
    try:
        seen, priors = look_at(entered, workspace, lake)
        seen = with_dbt_contents(seen, lake, project)
        seen = observed_sources(workspace, lake, seen, asker.session, names)
    except BaseException:
        asker.stop_asked.set()
        asker.stop()
        raise
    wanted = Options(names, force, full_refresh, *window)
    refuse_bad_window(project, wanted)
    workspace = replace(workspace, project=deferred(project, seen.observed, wanted.selected))
    plan = versioned(entered, make_plan(workspace.project, seen.observed, wanted), seen, priors)
    reckoned = reckoning(entered, seen, priors)
    if not plan.nothing_to_do:
        from sqb.build.sizing import sized  # reads queries, which nothing unchanged needs

        plan = sized(plan, workspace, lake, reckoned)
    return Planned(workspace, lake, seen, plan, asker, reckoned)


def with_dbt_contents(seen: Look, lake: IcebergLake, project: Project) -> Look:
    """What stands, with what is known of the rows that dbt left in tables that the project reads."""
    names = {e.name: e.name for e in project.externals.values() if e.dbt}
    if not names:
        return seen
    from sqb.dbt.contents import with_contents  # only projects beside dbt need it

    return with_contents(seen, lake, names)


def run_plan(
    project_dir: Path,
    target: str | None,
    variables: str | None,
    select: tuple[str, ...],
    exclude: tuple[str, ...],
    force: bool,
    full_refresh: bool,
    start_cursor: str | None,
    end_cursor: str | None,
    as_json: bool,
    verbose: bool,
    debug: bool,
    names: tuple[str, ...] = (),
    explain: bool = False,
    virtual_env: str | None = None,
    include_stale_upstreams: bool = False,
    changes_only: bool = False,
) -> int:
    """Show the plan, or one node of it in full."""
    opening = opened(project_dir, target, variables)
    entered = entered_for(opening, virtual_env)
    narrowed = Narrowed(entered, include_stale_upstreams, changes_only)
    # A node is explained as part of the plan that it belongs to; without that, a name is one more selector.
    chosen = select if explain else (*select, *names)
    window = (start_cursor, end_cursor)
    made = plan_workspace(opening, chosen, exclude, force, full_refresh, window, narrowed)
    workspace, lake, seen, plan = made.workspace, made.lake, made.seen, made.plan
    made.asker.stop()
    if explain:
        from sqb.cli.explain import run_explain  # reads queries and history, which a plan does not need

        return run_explain(workspace, lake, made.reckoned, plan, names, as_json)
    if missing := unrecorded(workspace, lake, seen.states).text:
        plan = replace(plan, warnings=(*plan.warnings, f"{missing}; the next build writes it"))
    if not plan.nothing_to_do:
        from sqb.build.data_changes import with_changes  # reads metadata files, which nothing unchanged needs

        plan = with_changes(plan, workspace.project, lake, made.reckoned)
    if as_json:
        document = plan_document(plan)
        if entered is not None:
            document["environment"] = environment_data(entered, plan, seen)
        print_document(document, plan)
    else:
        diffs = diffs_of(workspace, lake, plan, entered) if verbose else {}
        for line in told(entered, plan, seen):
            print(line)
        for line in plan_lines(plan, verbose, Paint(sys.stdout), diffs, terminal_width(sys.stdout)):
            print(line)
        due = due_tests(workspace, lake, seen, plan)
        if due:
            print(f"Unit tests: {len(due)} to run before the models")
    return 1 if plan.summary["blocked"] else 0


def plan_document(plan: Plan) -> dict[str, Any]:
    """A plan as `--json` prints it."""
    data = plan.to_data()
    nodes = [{k: n[k] for k in (*_PLAN_KEYS, *_EXPLAIN_KEYS)} for n in data["nodes"]]
    return {"target": data["target"], "nodes": nodes, "summary": data["summary"]}


def print_document(document: dict[str, Any], plan: Plan) -> None:
    """One JSON document for programs, and for people beside it what it has no room for."""
    print(json.dumps(document, indent=2, ensure_ascii=False))
    for warning in plan.warnings:
        print(Paint(sys.stderr)(f"warning: {warning}", "yellow"), file=sys.stderr)


def diffs_of(workspace: Workspace, lake: IcebergLake, plan: Plan, entered: Entered | None = None) -> dict[str, str]:
    """How the definitions of nodes that changed differ from those that were built."""
    project = workspace.project
    names = changed_names(plan, project)
    if not names:
        return {}
    if entered is not None:
        bound = bound_definitions(entered)
        return {n: query_diff(bound[n], project.nodes[n].definition) for n in names if n in bound}
    schemas = {project.nodes[n].relation.schema if n in project.nodes else project.python[n].schema for n in names}
    rows = lake.fingerprints(sorted(schemas))
    stored = {row.node_name: row.definition for row in rows.values() if row.node_type != "test"}
    now = {n: (project.nodes.get(n) or project.python[n]).definition for n in names if n in stored}
    return {n: code_diff(stored[n], now[n]) if n in project.python else query_diff(stored[n], now[n]) for n in now}


def new_asker(workspace: Workspace) -> Asker:
    """Spark for one command, which says on standard error what it waits for."""
    return Asker(workspace, new_run_id(), lambda text: print(text, file=sys.stderr))


def new_run_id() -> str:
    """A name for a run that sorts by time and can be part of a table's name."""
    return f"{time.strftime('%Y%m%d_%H%M%S', time.gmtime())}_{os.urandom(3).hex()}"


def run_build(
    project_dir: Path,
    target: str | None,
    variables: str | None,
    select: tuple[str, ...],
    exclude: tuple[str, ...],
    force: bool,
    full_refresh: bool,
    start_cursor: str | None,
    end_cursor: str | None,
    concurrency: int | None,
    fail_fast: bool,
    store_failures: bool,
    as_json: bool,
    verbose: bool,
    debug: bool,
    virtual_env: str | None = None,
    include_stale_upstreams: bool = False,
    changes_only: bool = False,
    take_over: bool = False,
) -> int:
    """Carry the plan out."""
    began = time.monotonic()
    window = (start_cursor, end_cursor)
    opening = opened(project_dir, target, variables)

    def refuse(entered: Entered) -> None:
        Narrowed(entered, include_stale_upstreams, changes_only).names(_selected(opening, select, exclude))

    with environment_to_build(opening, virtual_env, take_over, refuse=refuse) as (entered, token):
        narrowed = Narrowed(entered, include_stale_upstreams, changes_only)
        made = plan_workspace(opening, select, exclude, force, full_refresh, window, narrowed)
        options = HowToRun(concurrency, fail_fast, store_failures, as_json, verbose, debug)
        built = carry_out(made, options, began, entered, token)
        return tell_built(made, built, options, began, entered)


@dataclass(frozen=True, slots=True)
class HowToRun:
    """How a build is to go about it, and to tell of it."""

    concurrency: int | None
    fail_fast: bool
    store_failures: bool
    as_json: bool
    verbose: bool
    debug: bool


@dataclass(frozen=True, slots=True)
class Built:
    """A plan that was carried out, and what is to be told of it."""

    result: BuildResult
    tested: bool
    repaired: str
    settled: Settled | None

    @property
    def failed(self) -> list[Any]:
        return [n for n in self.result.nodes if n.status == "failed" and n.error is not None]


def carry_out(made: Planned, how: HowToRun, began: float, entered: Entered | None, token: str) -> Built:
    """Build what was planned."""
    workspace, lake, seen, plan, asker = made.workspace, made.lake, made.seen, made.plan, made.asker
    repaired = _repaired(workspace, lake, seen)
    due = due_tests(workspace, lake, seen, plan)
    if plan.nothing_to_do and not due:
        asker.stop()
        _record_sources(workspace, lake, seen, asker.run_id)
        result = nothing_ran(plan, asker.run_id, time.monotonic() - began, asker.started)
        states, externals = seen.states, seen.externals
    else:
        width = how.concurrency or workspace.concurrency or max(2, os.cpu_count() or 2)
        result, states, externals = _carried_out(made, due, width, how)
    return Built(result, bool(due), repaired, shown(entered, result, states, externals, token))


def tell_built(made: Planned, built: Built, how: HowToRun, began: float, entered: Entered | None) -> int:
    """Tell what became of a build; the exit code."""
    workspace, result, failed = made.workspace, built.result, built.failed
    # A model that a test has failed tells so itself.
    told = {n.planned.name for n in failed}
    untrue = [t for t in result.tests if t.error is not None and t.test.model not in told]
    if how.debug:
        print_causes([*failed, *untrue])
    if how.as_json:
        print_document(build_document(made, built, entered), made.plan)
        if built.repaired:
            print(f"note: {built.repaired}", file=sys.stderr)
        return 0 if result.ok else 1
    _print_nodes(result, built.tested, how.verbose)
    _print_failures(failed, workspace, made.asker.log, result.spark_started)
    print_test_failures(untrue, workspace, None if failed else made.asker.log)
    _print_end(result, built.repaired, built.tested, time.monotonic() - began, built.settled)
    return 0 if result.ok else 1


def build_document(made: Planned, built: Built, entered: Entered | None) -> dict[str, Any]:
    """A build as `--json` prints it."""
    document = _build_document(built.result, made.workspace)
    if entered is not None:
        document["environment"] = environment_data(entered, made.plan, made.seen, built.settled)
    return document


def _build_document(result: BuildResult, workspace: Workspace) -> dict[str, Any]:
    """A build as `--json` prints it."""
    nodes = [{k: d[k] for k in _BUILD_KEYS} for d in (n.to_data() for n in result.nodes)]
    document = {"target": result.plan.target, "nodes": nodes, "summary": result.summary}
    if workspace.project.tests:
        document["tests"] = [t.to_data() for t in result.tests]
    return document


def _print_nodes(result: BuildResult, tested: bool, verbose: bool) -> None:
    """The nodes that nobody has heard of yet."""
    paint = Paint(sys.stdout)
    for node in result.nodes if result.plan.nothing_to_do and not tested else ():
        # Nobody listened, as nothing ran; but what is blocked must be told each time.
        if node.status == "blocked":
            print(done_line(node, paint))
    for line in skipped_lines([n for n in result.nodes if n.planned.action == "skip"], verbose, paint):
        print(line)


def _print_end(
    result: BuildResult, repaired: str, tested: bool, seconds: float, settled: Settled | None = None
) -> None:
    paint, plan = Paint(sys.stdout), result.plan
    for warning in plan.warnings:
        print(paint(f"warning: {warning}", "yellow"))
    if repaired:
        print(paint(f"note: {repaired}", "yellow"))
    if plan.nothing_to_do and not plan.summary["blocked"] and not tested:
        print("Nothing to do: everything is up to date.")
    if result.interrupted:
        print(paint("Interrupted: what had been published stays, the rest is left for the next build.", "yellow"))
    for line in told_after(settled):
        print(line)
    print(summary_line(result, seconds))


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


def _carried_out(
    made: Planned, due: list[UnitTest], width: int, how: HowToRun
) -> tuple[BuildResult, Mapping[Relation, TableState], Mapping[str, Relation]]:
    """Run the plan's nodes; loaded only when there are any. Also what stands then, and where externals are."""
    from sqb.build.events import Progress
    from sqb.build.run import Build, BuildSettings
    from sqb.build.steps import from_environment
    from sqb.console.live import Listener

    workspace, asker = made.workspace, made.asker
    stream = sys.stderr if how.as_json else sys.stdout
    git, announce = git_commit(workspace.root), from_environment()
    settings = BuildSettings(asker.run_id, width, how.fail_fast, git, announce, how.store_failures, asker.stop_asked)
    with Listener(stream, made.plan.summary["run"]) as listener, signals(settings.stop, listener):
        engine = asker.engine(lambda text: listener(Progress(text)), width)
        try:
            build = Build(workspace, made.lake, made.seen, made.plan, engine, settings, listener, due)
            return build.run(), build.states, build.externals
        finally:
            engine.stop()


def _print_failures(failed: list[Any], workspace: Workspace, log: Path, spark: bool) -> None:
    from sqb.console.errors import print_error, print_log_place

    sys.stdout.flush()
    # What keeps Spark from starting, or a full disk, fails many nodes with one error: it is told once.
    by_error: dict[tuple[str, str | None], list[Any]] = {}
    for node in failed:
        by_error.setdefault((str(node.error), node.error.hint), []).append(node)
    for same in by_error.values():
        names = [n.planned.name for n in same]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        print(f"\n{', '.join(names[:3])}{more}:", file=sys.stderr)
        print_error(same[0].error, workspace.root)
    if failed and spark and log.exists():
        print_log_place(log)
    sys.stderr.flush()


def print_test_failures(failed: list[UnitTestDone], workspace: Workspace, log: Path | None) -> None:
    """Explain unit tests that failed; one error that fails many, such as no Java, is told once."""
    from sqb.console.errors import print_error, print_log_place

    sys.stdout.flush()
    for error in {(str(d.error), d.error.hint): d.error for d in failed if d.error is not None}.values():
        print(file=sys.stderr)
        print_error(error, workspace.root)
    if log is not None and log.exists() and not all(isinstance(d.error, UnitTestFailed) for d in failed):
        print_log_place(log)
    sys.stderr.flush()


def print_causes(failed: list[Any]) -> None:
    """Show the tracebacks behind errors."""
    import traceback

    for node in failed:
        traceback.print_exception(node.error.__cause__ or node.error, file=sys.stderr)


@contextmanager
def signals(stop: threading.Event, listener: Listener) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM asks the build to stop cleanly; a second one does not wait."""

    def handle(number: int, frame: object) -> None:
        if stop.is_set():
            if sys.stdout.isatty():
                os.write(1, b"\x1b[?25h\n")  # the live display had hidden the cursor
            os._exit(1)
        stop.set()
        listener.stopping = True

    previous = {s: signal.signal(s, handle) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
