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

from sqb.build.errors import explain_error
from sqb.build.events import Event, UnitTestDone, UnitTestsDone
from sqb.build.observe.lake import LakeState
from sqb.build.unit_tests.execute import UnitTestRunner
from sqb.build.unit_tests.passed_cache import InputStates, PassedTestCache, compute_key, compute_tokens, is_only_built
from sqb.compile.model import UnitTest
from sqb.errors.base import SqbError, SqbErrors
from sqb.lake.port import Lake, TableState
from sqb.lake.state.rows import Fingerprint
from sqb.names import Relation
from sqb.plan.model import Plan
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
        input_states: InputStates,
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
        self._input_states = input_states
        self._scope: dict[str, list[UnitTest]] = {}
        for test in scope:
            self._scope.setdefault(test.model, []).append(test)
        # Under which types of their inputs tests have passed, be it now or before.
        due_names = {t.name for t in due}
        self._passed_tokens = {
            t.name: compute_tokens(t, self.project, input_states) for t in self._list_all() if t.name not in due_names
        }
        self._finished = threading.Event()
        if not self.due:
            self._finished.set()

    def _list_all(self) -> list[UnitTest]:
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
        trial = UnitTestRunner(self.workspace, self._input_states)
        try:
            with ThreadPoolExecutor(max(1, min(width, len(self.due))), "unit-test") as pool:
                list(pool.map(lambda test: self._run_one(test, trial, self._input_states), self.due))
            self.listen(UnitTestsDone(tuple(self.results.values()), time.monotonic() - began))
        finally:
            self._finished.set()

    def _run_one(self, test: UnitTest, trial: UnitTestRunner, input_states: InputStates) -> None:
        if self.stop.is_set():
            return
        began = time.monotonic()
        error: SqbError | None = None
        try:
            trial.run_test(test, self.engine.session())
        except BaseException as raised:
            error = explain_error(raised, None, self.workspace.root, self.engine)  # type: ignore[arg-type]
        if self.stop.is_set():
            return
        if error is None:
            self._passed_tokens[test.name] = compute_tokens(test, self.project, input_states)
        done = UnitTestDone(test, "failed" if error else "passed", time.monotonic() - began, error)
        self.results[test.name] = done
        self.listen(done)

    def wait(self) -> None:
        """Wait until every test that was due has run."""
        self._finished.wait()

    def raise_failures(self, model: str, states: Mapping[Relation, TableState]) -> None:
        """Raise what is wrong with a model by its tests; run those again whose inputs have got other columns by now."""
        self.rerun_changed(model, states)
        tests = self._scope.get(model, ())
        failed = [done.error for t in tests if (done := self.results.get(t.name)) is not None and done.error]
        if failed:
            raise failed[0] if len(failed) == 1 else SqbErrors(failed)

    def rerun_changed(self, model: str, states: Mapping[Relation, TableState]) -> None:
        """Run the tests of a model again whose inputs have got other columns by now."""
        tests = self._scope.get(model, ())
        if not tests:
            return
        self.wait()
        now = InputStates(states, self._input_states.externals)
        for test in tests:
            then = self._passed_tokens.get(test.name)
            if then is not None and not is_only_built(then, compute_tokens(test, self.project, now)):
                del self._passed_tokens[test.name]
                self._run_one(test, UnitTestRunner(self.workspace, now), now)

    def list_passed(self, states: Mapping[Relation, TableState]) -> list[tuple[UnitTest, str]]:
        """The tests that passed and are to be remembered, with their keys: definitions may have become tables."""
        now = InputStates(states, self._input_states.externals)
        passed = []
        for test in self._list_all():
            then = self._passed_tokens.get(test.name)
            if then is None:
                continue
            after = compute_tokens(test, self.project, now)
            ran = test.name in self.results
            if (ran or after != then) and is_only_built(then, after):
                passed.append((test, compute_key(test, after)))
        return passed

    def record_passed(self, lake: Lake, states: Mapping[Relation, TableState], run_id: str) -> list[Fingerprint]:
        """Remember here what passed, and give the rows that tell others."""
        return PassedTestCache(self.workspace, lake).record(self.list_passed(states), run_id)


def build_unit_tests(
    workspace: Workspace,
    lake_state: LakeState,
    plan: Plan,
    due: Collection[UnitTest],
    engine: Engine,
    listen: Callable[[Event], None],
    stop: threading.Event,
) -> UnitTests:
    """The unit tests of the models in a plan."""
    planned = {node.name for node in plan.nodes}
    scope = [test for test in workspace.project.tests if test.model in planned]
    return UnitTests(workspace, InputStates(lake_state.states, lake_state.externals), scope, due, engine, listen, stop)
