"""`sqb build` and `sqb load`: their output, their exit codes and Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqb.build.result import BuildResult
from sqb.cli.options import CommonOptions, parse_call
from sqb.cli.output import create_spark, print_document, print_lines, print_remark, print_warnings
from sqb.console.lines import format_done, format_end, format_skipped
from sqb.console.style import Paint
from sqb.errors.base import SqbError
from sqb.errors.build import UnitTestFailed
from sqb.operations.build import BuildOptions, BuildOutcome, build_project
from sqb.workspace import Workspace

if TYPE_CHECKING:
    from sqb.build.events import NodeDone, UnitTestDone
    from sqb.build.spark_engine import OnDemandSpark
    from sqb.console.live import Listener
    from sqb.operations.build import ListenTo
    from sqb.operations.event_log import EventLog


def run_build(names: tuple[str, ...], log_format: str, **values: Any) -> int:
    """Run what changed, and print what became of it."""
    started_at = time.monotonic()
    common, options = parse_call(BuildOptions, {**values, "select": (*values["select"], *names)})
    workspace = common.open_or_explain(options.virtual_env)
    spark = create_spark(workspace)
    log = _begin_log(log_format, "build", common, workspace, spark)
    try:
        outcome = build_project(workspace, options, spark, _listen(log, common))
    except (SqbError, KeyboardInterrupt) as error:
        return _end_unfinished(error, common, log)
    return _end(outcome, common, time.monotonic() - started_at, log)


def run_load(log_format: str, **values: Any) -> int:
    """Run loaders alone, and print what became of them."""
    from sqb.operations.load import LoadOptions, load_sources

    started_at = time.monotonic()
    common, options = parse_call(LoadOptions, values)
    workspace = common.open_workspace()
    spark = create_spark(workspace)
    log = _begin_log(log_format, "load", common, workspace, spark)
    try:
        outcome = load_sources(workspace, options, spark, _listen(log, common))
    except (SqbError, KeyboardInterrupt) as error:
        return _end_unfinished(error, common, log)
    return _end(outcome, common, time.monotonic() - started_at, log)


def _begin_log(
    log_format: str, command: str, common: CommonOptions, workspace: Workspace, spark: OnDemandSpark
) -> EventLog | None:
    """The log of a run, where it is wanted as JSON; it is on standard output, beside a document on standard error."""
    if log_format != "json":
        return None
    from sqb.operations.event_log import EventLog  # people read lines

    log = EventLog(sys.stderr if common.as_json else sys.stdout, spark.run_id)
    log.write({"event": "run_started", "command": command, "target": workspace.project.target})
    return log


def _listen(log: EventLog | None, common: CommonOptions) -> ListenTo:
    if log is None:
        return listen_to(common.as_json, verbose=common.verbose)

    @contextmanager
    def listen(count: int, stop: threading.Event) -> Iterator[EventLog]:
        with handle_signals(stop, log):
            yield log

    return listen


def _end(outcome: BuildOutcome, common: CommonOptions, seconds: float, log: EventLog | None) -> int:
    """Print the end of a run, as lines, as a document or as the last event of its log; returns the exit code."""
    if log is None:
        return print_build(outcome, common, seconds)
    result = outcome.result
    for warning in outcome.planned.plan.warnings:
        log.write({"event": "warning", "text": warning})
    for note in outcome.notes:
        log.write({"event": "notice", "text": note})
    status = "interrupted" if result.interrupted else "ok" if result.ok else "failed"
    log.write({"event": "run_done", "status": status, **result.summary})
    if common.as_json:
        print_document(outcome.to_data())
    return 0 if result.ok else 1


def _end_unfinished(error: SqbError | KeyboardInterrupt, common: CommonOptions, log: EventLog | None) -> int:
    """End the log of a run that an error or Ctrl-C has ended before it had a result; without a log it is raised."""
    if log is None:
        raise error
    from sqb.cli.report import choose_exit_code
    from sqb.console.errors import encode_errors, print_traceback

    if common.debug:
        print_traceback(error)
    failures = encode_errors(error) if isinstance(error, SqbError) else []
    for failure in failures:
        log.write({"event": "error", **failure})
    log.write({"event": "run_done", "status": "failed" if failures else "interrupted"})
    if common.as_json:
        print_document({"errors": failures, "nodes": []})
    return choose_exit_code(error) if isinstance(error, SqbError) else 1


def listen_to(
    as_json: bool, every_test: bool = False, verbose: bool = False
) -> Callable[[int, threading.Event], AbstractContextManager[Listener]]:
    """Print the events of a build, beside the document where there is one; Ctrl-C stops the build."""

    @contextmanager
    def listen(count: int, stop: threading.Event) -> Iterator[Listener]:
        from sqb.console.live import Listener  # only loaded when something runs

        stream = sys.stderr if as_json else sys.stdout
        with (
            Listener(stream, count, every_test=every_test, verbose=verbose) as listener,
            handle_signals(stop, listener),
        ):
            yield listener

    return listen


def print_build(outcome: BuildOutcome, common: CommonOptions, seconds: float) -> int:
    """Print the result of a build; returns the exit code."""
    workspace, spark, result = outcome.planned.workspace, outcome.planned.spark, outcome.result
    failed = outcome.failed
    # A model that a test has failed says so itself.
    failed_names = {n.planned.name for n in failed}
    failed_tests = [t for t in result.tests if t.error is not None and t.test.model not in failed_names]
    if common.debug:
        print_causes([*failed, *failed_tests])
    if common.as_json:
        print_document(outcome.to_data())
        print_warnings(outcome.planned.plan)
        for note in outcome.notes:
            print_remark(f"note: {note}")
        return 0 if result.ok else 1
    _print_nodes(result, outcome.tested, common.verbose)
    _print_failures(failed, workspace, spark.log, result.spark_started, common.verbose)
    print_test_failures(failed_tests, workspace, None if failed else spark.log)
    print_lines(
        format_end(result, list(outcome.notes), outcome.tested, seconds, outcome.environment, Paint(sys.stdout))
    )
    return 0 if result.ok else 1


def _print_nodes(result: BuildResult, tested: bool, verbose: bool) -> None:
    """Print the nodes that the listener has not printed."""
    paint = Paint(sys.stdout)
    for node in result.nodes if result.plan.nothing_to_do and not tested else ():
        # Nothing ran, so no listener printed them; blocked nodes are printed each time.
        if node.status == "blocked":
            print_lines([format_done(node, paint)])
    print_lines(format_skipped([n for n in result.nodes if n.planned.action == "skip"], verbose, paint))


def _print_failures(failed: list[NodeDone], workspace: Workspace, log: Path, spark: bool, verbose: bool) -> None:
    from sqb.console.errors import print_error_lines, print_log_path
    from sqb.console.failures import format_failures

    sys.stdout.flush()
    print_error_lines(format_failures(failed, workspace.root, verbose, Paint(sys.stderr)))
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
def handle_signals(stop: threading.Event, listener: Listener | EventLog) -> Iterator[None]:
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
