"""The unit tests of a build or of `sqb test`: run side by side as soon as Spark is there, before any model.

A model does not run while a test of it fails. What passed is remembered by `passed_tests`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Protocol

from sqb.build.events import Event, UnitTestDone, UnitTestsDone
from sqb.build.failures import explained
from sqb.build.observe import Look
from sqb.build.passed_tests import PassedTests, Seen, key_of, only_built, tokens_of
from sqb.build.trial import Trial
from sqb.compiled import UnitTest
from sqb.errors import SqbError, SqbErrors
from sqb.lake.iceberg import IcebergLake
from sqb.lake.port import TableState
from sqb.lake.state import Fingerprint
from sqb.names import Relation
from sqb.plan.values import Plan
from sqb.workspace import Workspace


class Engine(Protocol):
    """What tests need of Spark."""

    @property
    def started(self) -> bool: ...
    def warm(self) -> None: ...
    def session(self) -> Any: ...


class UnitTests:
    """The tests of the models of one run, and what became of those that had to run."""

    def __init__(
        self,
        workspace: Workspace,
        seen: Seen,
        scope: Iterable[UnitTest],
        due: Collection[UnitTest],
        engine: Engine,
        listen: Callable[[Event], None],
        stop: threading.Event,
    ) -> None:
        self.workspace, self.project = workspace, workspace.project
        self.engine, self.listen, self.stop = engine, listen, stop
        self.due = tuple(due)
        self.results: dict[str, UnitTestDone] = {}
        self._seen = seen
        self._scope: dict[str, list[UnitTest]] = {}
        for test in scope:
            self._scope.setdefault(test.model, []).append(test)
        # Under which types of their inputs tests have passed, be it now or before.
        due_names = {t.name for t in due}
        self._passed = {t.name: tokens_of(t, self.project, seen) for t in self._all() if t.name not in due_names}
        self._finished = threading.Event()
        if not self.due:
            self._finished.set()

    def _all(self) -> list[UnitTest]:
        return [test for tests in self._scope.values() for test in tests]

    def start(self, width: int) -> None:
        """Begin with the tests that are due, without waiting for them."""
        if self.due:
            self.engine.warm()
            threading.Thread(target=self._run_all, args=(width,), name="unit-tests", daemon=True).start()

    def _run_all(self, width: int) -> None:
        with suppress(BaseException):  # each test meets it too, and says so
            self.engine.session()
        began = time.monotonic()
        trial = Trial(self.workspace, self._seen)
        try:
            with ThreadPoolExecutor(max(1, min(width, len(self.due))), "unit-test") as pool:
                list(pool.map(lambda test: self._run(test, trial, self._seen), self.due))
            self.listen(UnitTestsDone(tuple(self.results.values()), time.monotonic() - began))
        finally:
            self._finished.set()

    def _run(self, test: UnitTest, trial: Trial, seen: Seen) -> None:
        if self.stop.is_set():
            return
        began = time.monotonic()
        error: SqbError | None = None
        try:
            trial.run(test, self.engine.session())
        except BaseException as raised:
            error = explained(raised, None, self.workspace.root, self.engine)  # type: ignore[arg-type]
        if self.stop.is_set():
            return
        if error is None:
            self._passed[test.name] = tokens_of(test, self.project, seen)
        done = UnitTestDone(test, "failed" if error else "passed", time.monotonic() - began, error)
        self.results[test.name] = done
        self.listen(done)

    def wait(self) -> None:
        """Wait until every test that was due has run."""
        self._finished.wait()

    def refuse_untrue(self, model: str, states: Mapping[Relation, TableState]) -> None:
        """Raise what is wrong with a model by its tests; run those again whose inputs have got other columns by now."""
        self.renew(model, states)
        tests = self._scope.get(model, ())
        failed = [done.error for t in tests if (done := self.results.get(t.name)) is not None and done.error]
        if failed:
            raise failed[0] if len(failed) == 1 else SqbErrors(failed)

    def renew(self, model: str, states: Mapping[Relation, TableState]) -> None:
        """Run the tests of a model again whose inputs have got other columns by now."""
        tests = self._scope.get(model, ())
        if not tests:
            return
        self.wait()
        now = Seen(states, self._seen.externals)
        for test in tests:
            then = self._passed.get(test.name)
            if then is not None and not only_built(then, tokens_of(test, self.project, now)):
                del self._passed[test.name]
                self._run(test, Trial(self.workspace, now), now)

    def passed(self, states: Mapping[Relation, TableState]) -> list[tuple[UnitTest, str]]:
        """The tests that passed and are to be remembered, with their keys: definitions may have become tables."""
        now = Seen(states, self._seen.externals)
        found = []
        for test in self._all():
            then = self._passed.get(test.name)
            if then is None:
                continue
            after = tokens_of(test, self.project, now)
            ran = test.name in self.results
            if (ran or after != then) and only_built(then, after):
                found.append((test, key_of(test, after)))
        return found

    def remember(self, lake: IcebergLake, states: Mapping[Relation, TableState], run_id: str) -> list[Fingerprint]:
        """Remember here what passed, and give the rows that tell others."""
        return PassedTests(self.workspace, lake).remember(self.passed(states), run_id)


def tests_of(
    workspace: Workspace,
    look: Look,
    plan: Plan,
    due: Collection[UnitTest],
    engine: Engine,
    listen: Callable[[Event], None],
    stop: threading.Event,
) -> UnitTests:
    """The unit tests of the models in a plan."""
    planned = {node.name for node in plan.nodes}
    scope = [test for test in workspace.project.tests if test.model in planned]
    return UnitTests(workspace, Seen(look.states, look.externals), scope, due, engine, listen, stop)
