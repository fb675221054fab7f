"""`sqb plan` and `sqb build`."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqb.build.observe.lake import LakeState
from sqb.build.result import BuildResult, generate_run_id
from sqb.build.spark_engine import OnDemandSpark
from sqb.build.unit_tests.passed_cache import list_due_tests
from sqb.cli.options import parse_variables
from sqb.console.documents import encode_build, encode_shown_plan
from sqb.console.lines import (
    diff_code,
    diff_definitions,
    format_done,
    format_end,
    format_plan,
    format_skipped,
    list_changed_nodes,
    shorten_diff,
)
from sqb.console.style import Paint, get_terminal_width
from sqb.errors.build import UnitTestFailed
from sqb.lake.port import Lake
from sqb.operations import build
from sqb.operations.build import BuildOptions, BuildOutcome
from sqb.operations.environment import (
    EnvironmentSelection,
    count_changed_views,
    list_misplaced_views,
    lock_environment_for_build,
    open_environment,
    read_bound_definitions,
)
from sqb.operations.plan import PlannedWorkspace, PlanRequest, enrich_plan, plan_workspace
from sqb.plan.model import Plan
from sqb.workspace import Workspace, open_workspace

if TYPE_CHECKING:
    from sqb.build.events import UnitTestDone
    from sqb.console.live import Listener
    from sqb.environments.session import EnvironmentSession


def open_project(project_dir: Path, target: str | None, variables: str | None) -> Workspace:
    """The workspace that the common options name."""
    return open_workspace(project_dir, target, parse_variables(variables))


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
    direct = open_project(project_dir, target, variables)
    session = open_environment(direct, virtual_env)
    selection = EnvironmentSelection(session, include_stale_upstreams, changes_only)
    # A node is explained as part of the plan that it belongs to; without that, a name is one more selector.
    chosen = select if explain else (*select, *names)
    request = PlanRequest(chosen, exclude, force, full_refresh, start_cursor, end_cursor)
    planned = plan_workspace(direct, request, create_spark(direct), selection)
    workspace, lake, seen = planned.workspace, planned.lake, planned.seen
    planned.spark.stop()
    if explain:
        from sqb.cli.plan import run_explain  # reads queries and history, which a plan does not need

        return run_explain(workspace, lake, planned.projected, planned.plan, names, as_json)
    plan = enrich_plan(planned)
    if as_json:
        print_document(encode_shown_plan(plan, seen, session), plan)
    else:
        diffs = read_diffs(workspace, lake, plan, session) if verbose or session is not None else {}
        if not verbose:
            diffs = {name: shorten_diff(text) for name, text in diffs.items()}
        for line in _format_environment(session, plan, seen):
            print(line)
        for line in format_plan(plan, verbose, Paint(sys.stdout), diffs, get_terminal_width(sys.stdout)):
            print(line)
        due = list_due_tests(workspace, lake, seen, plan)
        if due:
            print(f"Unit tests: {len(due)} to run before the models")
    return 1 if plan.summary["blocked"] else 0


def _format_environment(session: EnvironmentSession | None, plan: Plan, seen: LakeState) -> Iterator[str]:
    """What a plan says of its environment."""
    if session is not None:
        from sqb.console.environment_build import format_environment

        views, missing = count_changed_views(session, plan, seen), list_misplaced_views(session)
        yield from format_environment(session, plan, views, Paint(sys.stdout), missing)


def print_document(document: dict[str, Any], plan: Plan) -> None:
    """One JSON document for programs, and for people beside it what it has no room for."""
    print(json.dumps(document, indent=2, ensure_ascii=False))
    for warning in plan.warnings:
        print(Paint(sys.stderr)(f"warning: {warning}", "yellow"), file=sys.stderr)


def read_diffs(
    workspace: Workspace, lake: Lake, plan: Plan, session: EnvironmentSession | None = None
) -> dict[str, str]:
    """How the definitions of nodes that changed differ from those that were built."""
    project = workspace.project
    names = list_changed_nodes(plan, project)
    if not names:
        return {}
    if session is not None:
        bound = read_bound_definitions(session)
        return {n: diff_definitions(bound[n], project.nodes[n].definition) for n in names if n in bound}
    schemas = {project.nodes[n].relation.schema if n in project.nodes else project.python[n].schema for n in names}
    rows = lake.state.read_fingerprints(sorted(schemas))
    stored = {row.node_name: row.definition for row in rows.values() if row.node_type != "test"}
    now = {n: (project.nodes.get(n) or project.python[n]).definition for n in names if n in stored}
    return {
        n: diff_code(stored[n], now[n]) if n in project.python else diff_definitions(stored[n], now[n]) for n in now
    }


def create_spark(workspace: Workspace) -> OnDemandSpark:
    """Spark for one command, which says on standard error what it waits for."""
    return OnDemandSpark(workspace, generate_run_id(), lambda text: print(text, file=sys.stderr))


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
    allow_data_loss: bool = False,
) -> int:
    """Carry the plan out."""
    started_at = time.monotonic()
    request = PlanRequest(select, exclude, force, full_refresh, start_cursor, end_cursor)
    direct = open_project(project_dir, target, variables)

    def refuse(session: EnvironmentSession) -> None:
        EnvironmentSelection(session, include_stale_upstreams, changes_only).apply(request.select_names(direct.project))

    with lock_environment_for_build(direct, virtual_env, take_over, validate=refuse) as (session, token):
        selection = EnvironmentSelection(session, include_stale_upstreams, changes_only)
        planned = plan_workspace(direct, request, create_spark(direct), selection)
        options = CommandOptions(concurrency, fail_fast, store_failures, as_json, verbose, debug, allow_data_loss)
        outcome = execute_plan(planned, options, started_at, session, token)
        return print_result(planned, outcome, options, started_at, session)


@dataclass(frozen=True, slots=True)
class CommandOptions:
    """The options of a build command: how it runs and how it prints."""

    concurrency: int | None
    fail_fast: bool
    store_failures: bool
    as_json: bool
    verbose: bool
    debug: bool
    allow_data_loss: bool = False


def execute_plan(
    planned: PlannedWorkspace,
    command_options: CommandOptions,
    started_at: float,
    session: EnvironmentSession | None,
    token: str,
) -> BuildOutcome:
    """Execute a plan and print its events."""

    @contextmanager
    def listening(plan: Plan, stop: threading.Event) -> Iterator[Listener]:
        from sqb.console.live import Listener  # only loaded when something runs

        stream = sys.stderr if command_options.as_json else sys.stdout
        with Listener(stream, plan.summary["run"]) as listener, handle_signals(stop, listener):
            yield listener

    options = BuildOptions(
        command_options.concurrency,
        command_options.fail_fast,
        command_options.store_failures,
        command_options.allow_data_loss,
    )
    return build.execute_plan(planned, options, started_at, session, token, listening)


def print_result(
    planned: PlannedWorkspace,
    outcome: BuildOutcome,
    options: CommandOptions,
    started_at: float,
    session: EnvironmentSession | None,
) -> int:
    """Print the result of a build; returns the exit code."""
    workspace, result, failed = planned.workspace, outcome.result, outcome.failed
    # A model that a test has failed tells so itself.
    failed_names = {n.planned.name for n in failed}
    failed_tests = [t for t in result.tests if t.error is not None and t.test.model not in failed_names]
    if options.debug:
        print_causes([*failed, *failed_tests])
    if options.as_json:
        print_document(encode_build(planned, outcome, session), planned.plan)
        if outcome.repaired:
            print(f"note: {outcome.repaired}", file=sys.stderr)
        return 0 if result.ok else 1
    _print_nodes(result, outcome.tested, options.verbose)
    _print_failures(failed, workspace, planned.spark.log, result.spark_started)
    print_test_failures(failed_tests, workspace, None if failed else planned.spark.log)
    notes = [outcome.repaired] if outcome.repaired else []
    seconds = time.monotonic() - started_at
    for line in format_end(result, notes, outcome.tested, seconds, outcome.environment, Paint(sys.stdout)):
        print(line)
    return 0 if result.ok else 1


def _print_nodes(result: BuildResult, tested: bool, verbose: bool) -> None:
    """Print the nodes that the listener has not printed."""
    paint = Paint(sys.stdout)
    for node in result.nodes if result.plan.nothing_to_do and not tested else ():
        # Nothing ran, so no listener printed them; blocked nodes are printed each time.
        if node.status == "blocked":
            print(format_done(node, paint))
    for line in format_skipped([n for n in result.nodes if n.planned.action == "skip"], verbose, paint):
        print(line)


def _print_failures(failed: list[Any], workspace: Workspace, log: Path, spark: bool) -> None:
    from sqb.console.errors import print_error, print_log_path

    sys.stdout.flush()
    # What keeps Spark from starting, or a full disk, fails many nodes with one error: it is printed once.
    by_error: dict[tuple[str, str | None], list[Any]] = {}
    for node in failed:
        by_error.setdefault((str(node.error), node.error.hint), []).append(node)
    for same in by_error.values():
        names = [n.planned.name for n in same]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        print(f"\n{', '.join(names[:3])}{more}:", file=sys.stderr)
        print_error(same[0].error, workspace.root)
    if failed and spark and log.exists():
        print_log_path(log)
    sys.stderr.flush()


def print_test_failures(failed: list[UnitTestDone], workspace: Workspace, log: Path | None) -> None:
    """Explain unit tests that failed; one error that fails many, such as no Java, is printed once."""
    from sqb.console.errors import print_error, print_log_path

    sys.stdout.flush()
    for error in {(str(d.error), d.error.hint): d.error for d in failed if d.error is not None}.values():
        print(file=sys.stderr)
        print_error(error, workspace.root)
    if log is not None and log.exists() and not all(isinstance(d.error, UnitTestFailed) for d in failed):
        print_log_path(log)
    sys.stderr.flush()


def print_causes(failed: list[Any]) -> None:
    """Show the tracebacks behind errors."""
    from sqb.console.errors import print_traceback

    for node in failed:
        print_traceback(node.error.__cause__ or node.error)


@contextmanager
def handle_signals(stop: threading.Event, listener: Listener) -> Iterator[None]:
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
