"""`sqb plan` and `sqb build`."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqb.build.asking import Asker
from sqb.build.observe import Look
from sqb.build.passed_tests import due_tests
from sqb.build.result import BuildResult
from sqb.build.run_id import new_run_id
from sqb.console.lines import (
    changed_names,
    code_diff,
    done_line,
    end_lines,
    plan_lines,
    query_diff,
    short_diff,
    skipped_lines,
)
from sqb.console.paint import Paint, terminal_width
from sqb.errors import CallError, UnitTestFailed
from sqb.lake.iceberg import IcebergLake
from sqb.operations import building
from sqb.operations.building import Built, HowToBuild
from sqb.operations.documents import build_document, shown_plan_document
from sqb.operations.environment import (
    Narrowed,
    bound_definitions,
    entered_for,
    environment_to_build,
    views_to_move,
    views_to_put_back,
)
from sqb.operations.planning import Planned, Wanted, plan_workspace, to_be_shown
from sqb.operations.variables import refuse_bad_values
from sqb.plan.values import Plan
from sqb.workspace import Workspace, open_workspace

if TYPE_CHECKING:
    from sqb.build.events import UnitTestDone
    from sqb.console.live import Listener
    from sqb.environments.entering import Entered


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
        refuse_bad_values(found)
        return dict(found)
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
    wanted = Wanted(chosen, exclude, force, full_refresh, start_cursor, end_cursor)
    made = plan_workspace(opening, wanted, new_asker(opening), narrowed)
    workspace, lake, seen = made.workspace, made.lake, made.seen
    made.asker.stop()
    if explain:
        from sqb.cli.explain import run_explain  # reads queries and history, which a plan does not need

        return run_explain(workspace, lake, made.reckoned, made.plan, names, as_json)
    plan = to_be_shown(made)
    if as_json:
        print_document(shown_plan_document(plan, seen, entered), plan)
    else:
        diffs = diffs_of(workspace, lake, plan, entered) if verbose or entered is not None else {}
        if not verbose:
            diffs = {name: short_diff(text) for name, text in diffs.items()}
        for line in _told(entered, plan, seen):
            print(line)
        for line in plan_lines(plan, verbose, Paint(sys.stdout), diffs, terminal_width(sys.stdout)):
            print(line)
        due = due_tests(workspace, lake, seen, plan)
        if due:
            print(f"Unit tests: {len(due)} to run before the models")
    return 1 if plan.summary["blocked"] else 0


def _told(entered: Entered | None, plan: Plan, seen: Look) -> Iterator[str]:
    """What a plan says of its environment."""
    if entered is not None:
        from sqb.console.virtual_build import environment_lines

        views, missing = views_to_move(entered, plan, seen), views_to_put_back(entered)
        yield from environment_lines(entered, plan, views, Paint(sys.stdout), missing)


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
    began = time.monotonic()
    wanted = Wanted(select, exclude, force, full_refresh, start_cursor, end_cursor)
    opening = opened(project_dir, target, variables)

    def refuse(entered: Entered) -> None:
        Narrowed(entered, include_stale_upstreams, changes_only).names(wanted.names(opening.project))

    with environment_to_build(opening, virtual_env, take_over, refuse=refuse) as (entered, token):
        narrowed = Narrowed(entered, include_stale_upstreams, changes_only)
        made = plan_workspace(opening, wanted, new_asker(opening), narrowed)
        options = HowToRun(concurrency, fail_fast, store_failures, as_json, verbose, debug, allow_data_loss)
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
    allow_data_loss: bool = False


def carry_out(made: Planned, how: HowToRun, began: float, entered: Entered | None, token: str) -> Built:
    """Build what was planned, telling of it as it happens."""

    @contextmanager
    def listening(plan: Plan, stop: threading.Event) -> Iterator[Listener]:
        from sqb.console.live import Listener  # only told when something runs

        stream = sys.stderr if how.as_json else sys.stdout
        with Listener(stream, plan.summary["run"]) as listener, signals(stop, listener):
            yield listener

    options = HowToBuild(how.concurrency, how.fail_fast, how.store_failures, how.allow_data_loss)
    return building.carry_out(made, options, began, entered, token, listening)


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
    notes = [built.repaired] if built.repaired else []
    seconds = time.monotonic() - began
    for line in end_lines(result, notes, built.tested, seconds, built.settled, Paint(sys.stdout)):
        print(line)
    return 0 if result.ok else 1


def _print_nodes(result: BuildResult, tested: bool, verbose: bool) -> None:
    """The nodes that nobody has heard of yet."""
    paint = Paint(sys.stdout)
    for node in result.nodes if result.plan.nothing_to_do and not tested else ():
        # Nobody listened, as nothing ran; but what is blocked must be told each time.
        if node.status == "blocked":
            print(done_line(node, paint))
    for line in skipped_lines([n for n in result.nodes if n.planned.action == "skip"], verbose, paint):
        print(line)


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
    from sqb.console.errors import print_traceback

    for node in failed:
        print_traceback(node.error.__cause__ or node.error)


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
