"""`sqb test`: the unit tests of models, without building anything."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqb.build.events import UnitTestDone
from sqb.build.result import generate_run_id
from sqb.build.unit_tests.passed_cache import InputStates, PassedTestCache, read_input_states
from sqb.cli.build import handle_signals, open_project, print_causes, print_test_failures
from sqb.compile.model import UnitTest
from sqb.console.lines import format_test_summary, format_unchanged_tests
from sqb.console.style import Paint
from sqb.errors.base import SqbError
from sqb.graph import select as choose
from sqb.lake.port import Lake
from sqb.operations.environment import open_read_only
from sqb.workspace import Workspace


@dataclass(frozen=True, slots=True)
class _TestRun:
    done: tuple[UnitTestDone, ...] = ()
    interrupted: bool = False


def run_test(
    project_dir: Path,
    target: str | None,
    variables: str | None,
    select: tuple[str, ...],
    exclude: tuple[str, ...],
    force: bool,
    as_json: bool,
    verbose: bool,
    debug: bool,
    virtual_env: str | None = None,
) -> int:
    """Run the tests that have changed, or whose models have."""
    started_at = time.monotonic()
    workspace, lake = open_read_only(open_project(project_dir, target, variables), virtual_env)
    project = workspace.project
    chosen = choose(project.nodes, project.externals, select, exclude).names
    scope = [t for t in project.tests if t.model in chosen]
    seen = read_input_states(project, lake, scope)
    due = scope if force else PassedTestCache(workspace, lake).list_due(scope, seen)
    names = {t.name for t in due}
    unchanged = [t for t in scope if t.name not in names]
    log = workspace.folder / "logs" / f"test_{generate_run_id()}.log"
    run = _run_tests(workspace, lake, seen, due, log, as_json) if due else _TestRun()
    failed = [d for d in run.done if d.status == "failed"]
    if debug:
        print_causes(failed)
    seconds = time.monotonic() - started_at
    code = 1 if failed or run.interrupted else 0
    if as_json:
        print(json.dumps(_encode_document(project.target, run.done, unchanged, seconds), indent=2, ensure_ascii=False))
        return code
    for line in format_unchanged_tests(unchanged, verbose, Paint(sys.stdout)):
        print(line)
    print_test_failures(failed, workspace, log)
    if not scope:
        print("No unit tests." if not project.tests else "No unit tests of the models selected.")
    if run.interrupted:
        print("Interrupted.")
    print(format_test_summary(len(run.done) - len(failed), len(failed), len(unchanged), seconds))
    return code


def _run_tests(
    workspace: Workspace, lake: Lake, seen: InputStates, due: Sequence[UnitTest], log: Path, as_json: bool
) -> _TestRun:
    """Run tests on Spark; loaded only when there are any."""
    import threading

    from sqb.build.events import Notice, Progress
    from sqb.build.spark_engine import LazyEngine
    from sqb.build.unit_tests.run import UnitTests
    from sqb.console.live import Listener

    width = workspace.concurrency or max(2, os.cpu_count() or 2)
    stop = threading.Event()
    stream = sys.stderr if as_json else sys.stdout
    with Listener(stream, len(due), every_test=True) as listener, handle_signals(stop, listener):
        engine = LazyEngine(workspace, log, lambda text: listener(Progress(text)), width, stop)
        try:
            engine.warm()
            lake.ensure_schemas(())  # Spark opens the catalog, which may not be there yet
            tests = UnitTests(workspace, seen, due, due, engine, listener, stop)
            tests.start(width)
            tests.wait()
        finally:
            engine.stop()
        try:
            passed = tests.record_passed(lake, seen.states, log.stem)
            if passed:
                lake.state.append_fingerprints(passed)
        except SqbError as error:
            listener(Notice(f"the history of this run could not be written: {error}"))
    order = {t.name: index for index, t in enumerate(due)}
    return _TestRun(tuple(sorted(tests.results.values(), key=lambda d: order[d.test.name])), stop.is_set())


def _encode_document(
    target: str, done: Sequence[UnitTestDone], unchanged: Sequence[UnitTest], seconds: float
) -> dict[str, Any]:
    ran = [
        {**d.to_data(), "file": d.test.at.file, "line": d.test.at.line, "seconds": round(d.seconds, 3)} for d in done
    ]
    rest = [
        {
            "name": t.name,
            "model": t.model,
            "status": "unchanged",
            "error": None,
            "file": t.at.file,
            "line": t.at.line,
            "seconds": 0,
        }
        for t in unchanged
    ]
    failed = sum(d.status == "failed" for d in done)
    summary = {
        "passed": len(done) - failed,
        "failed": failed,
        "unchanged": len(unchanged),
        "seconds": round(seconds, 3),
        "spark_started": bool(done),
    }
    return {"target": target, "tests": ran + rest, "summary": summary}
