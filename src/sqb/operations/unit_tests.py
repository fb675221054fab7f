"""The unit tests of models, without building anything."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqb.build.events import UnitTestDone
from sqb.build.spark_engine import OnDemandSpark
from sqb.build.unit_tests.passed_cache import InputStates, PassedTestCache, read_input_states
from sqb.compile.model import UnitTest
from sqb.errors.base import SqbError
from sqb.lake.port import Lake
from sqb.operations.environment import open_environment
from sqb.operations.selection import Wanted, select_nodes
from sqb.workspace import Workspace

if TYPE_CHECKING:
    from sqb.operations.build import ListenTo


@dataclass(frozen=True, slots=True)
class UnitTestOptions:
    """Whose tests run, and whether those that passed run again."""

    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    force: bool = False
    virtual_env: str | None = None
    selector: str | None = None


@dataclass(frozen=True, slots=True)
class UnitTestRun:
    """The tests that ran, and those that did not have to."""

    target: str
    done: tuple[UnitTestDone, ...]
    unchanged: tuple[UnitTest, ...]
    # How many tests are selected, and whether the project has any at all.
    selected: int
    has_tests: bool
    seconds: float
    log: Path
    interrupted: bool = False

    @property
    def failed(self) -> list[UnitTestDone]:
        return [d for d in self.done if d.status == "failed"]

    @property
    def ok(self) -> bool:
        return not self.failed and not self.interrupted

    def to_data(self) -> dict[str, Any]:
        """What `sqb test --json` prints."""
        summary = {
            "passed": len(self.done) - len(self.failed),
            "failed": len(self.failed),
            "unchanged": len(self.unchanged),
            "seconds": round(self.seconds, 3),
            "spark_started": bool(self.done),
        }
        tests = [*map(_encode_done, self.done), *map(_encode_unchanged, self.unchanged)]
        return {"target": self.target, "tests": tests, "summary": summary}


def run_unit_tests(
    workspace: Workspace, options: UnitTestOptions, spark: OnDemandSpark, listen_to: ListenTo
) -> UnitTestRun:
    """Run the tests that have changed, or whose models have; `spark` is stopped."""
    started_at = time.monotonic()
    environment = open_environment(workspace, options.virtual_env)
    opened, lake = environment.workspace, environment.lake
    project = opened.project
    wanted = Wanted(options.select, options.exclude, options.selector)
    chosen = select_nodes(environment, wanted, project.nodes, spark).names
    scope = [t for t in project.tests if t.model in chosen]
    seen = read_input_states(project, lake, scope)
    due = scope if options.force else PassedTestCache(opened, lake).list_due(scope, seen)
    done = _run_due(opened, lake, seen, due, spark, listen_to) if due else ()
    names = {t.name for t in due}
    return UnitTestRun(
        target=project.target,
        done=done,
        unchanged=tuple(t for t in scope if t.name not in names),
        selected=len(scope),
        has_tests=bool(project.tests),
        seconds=time.monotonic() - started_at,
        log=spark.log,
        interrupted=bool(due) and spark.stop_requested.is_set(),
    )


def _run_due(
    workspace: Workspace,
    lake: Lake,
    seen: InputStates,
    due: Sequence[UnitTest],
    spark: OnDemandSpark,
    listen_to: ListenTo,
) -> tuple[UnitTestDone, ...]:
    """Run tests on Spark; loaded only when there are any."""
    from sqb.build.events import Notice, Progress
    from sqb.build.unit_tests.run import UnitTests

    spark.refuse_unfit()
    width, stop = workspace.concurrency or max(2, os.cpu_count() or 2), spark.stop_requested
    with listen_to(len(due), stop) as listen:
        engine = spark.get_engine(lambda text: listen(Progress(text)), width)
        # Their rows are those that the test gives.
        engine.expect_rows(0)
        try:
            engine.warm()
            lake.ensure_schemas(())  # Spark opens the catalog, which may not be there yet
            tests = UnitTests(workspace, seen, due, due, engine, listen, stop)
            tests.start(width)
            tests.wait()
        finally:
            engine.stop()
        try:
            passed = tests.record_passed(lake, seen.states, spark.run_id)
            if passed:
                lake.state.append_fingerprints(passed)
        except SqbError as error:
            listen(Notice(f"the history of this run could not be written: {error}"))
    order = {t.name: index for index, t in enumerate(due)}
    return tuple(sorted(tests.results.values(), key=lambda d: order[d.test.name]))


def _encode_done(done: UnitTestDone) -> dict[str, Any]:
    at = done.test.at
    return {**done.to_data(), "file": at.file, "line": at.line, "seconds": round(done.seconds, 3)}


def _encode_unchanged(test: UnitTest) -> dict[str, Any]:
    return {
        "name": test.name,
        "model": test.model,
        "status": "unchanged",
        "error": None,
        "file": test.at.file,
        "line": test.at.line,
        "seconds": 0,
    }
