"""A Plan carried out: nodes run in parallel as soon as what they read is there.

A failed node blocks what reads it, and nothing else. What is published stays published; what is not leaves nothing.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from sqb.build.checks.gate import ChecksGate, WaitClock
from sqb.build.checks.preflight import validate_checks
from sqb.build.checks.run import recheck_relation
from sqb.build.context import BuildContext, BuildSettings, Listen
from sqb.build.errors import explain_error
from sqb.build.events import NodeDone, NodeStarted, NodeWaiting, Notice, PhaseStarted, WorkSpan
from sqb.build.history.freshness import list_consumed_sources
from sqb.build.history.record import Recorder, RunRecord
from sqb.build.history.recovery import get_owner
from sqb.build.kinds.failed_replays import build_attempt
from sqb.build.kinds.registry import KINDS
from sqb.build.node.concurrent_builds import run_node
from sqb.build.node.context import NodeContext, NodeOutcome
from sqb.build.node.hooks import build_with_hooks
from sqb.build.node.reuse import needs_spark, reuse_node
from sqb.build.node.version_clone import adopt_version, begin_version
from sqb.build.observe.files import SparkFileViews, check_files
from sqb.build.observe.lake import LakeState, list_pinned_inputs, read_pinned_versions
from sqb.build.observe.queries import open_classifications
from sqb.build.python.models import ModelSkipped, build_python_model
from sqb.build.python.run import PythonRunner
from sqb.build.result import BuildResult
from sqb.build.spark_engine import LazyEngine
from sqb.build.state import BuildState
from sqb.build.unit_tests.run import build_unit_tests
from sqb.compile.model import Node, UnitTest
from sqb.errors.base import SqbError
from sqb.errors.build import Interrupted
from sqb.lake.port import Lake
from sqb.lake.state.rows import FreshnessRow
from sqb.plan.model import Plan, PlannedNode, Reason
from sqb.plan.observed import (
    Input,
    Version,
    compute_checks_token,
    has_passed_checks,
    is_same_version,
    list_changed_inputs,
    list_quiet_lookups,
    list_versions_read,
)
from sqb.plan.replay import Span, compute_replay, encode_seen, get_window
from sqb.plan.reuse import replan_reuse
from sqb.workspace import Workspace

# How long a build that something breaks into waits for its nodes to end.
_SECONDS_TO_END = 10.0
_PAUSE = 0.2


class Build:
    """One build of one plan."""

    def __init__(
        self,
        workspace: Workspace,
        lake: Lake,
        lake_state: LakeState,
        plan: Plan,
        engine: LazyEngine,
        settings: BuildSettings,
        listen: Listen,
        due: Sequence[UnitTest] = (),
    ) -> None:
        self.workspace, self.lake, self.lake_state, self.plan = workspace, lake, lake_state, plan
        self.project = workspace.project
        self.engine, self.settings, self.listen = engine, settings, listen
        self.state = BuildState(lake_state)
        self.pinned_inputs = list_pinned_inputs(self.project)
        self.hook_results: list[NodeDone] = []
        self.started_at = datetime.now(UTC)
        self.files = SparkFileViews(lake_state.files)
        self.classifications = open_classifications(workspace)
        self.tests = build_unit_tests(workspace, lake_state, plan, due, engine, listen, settings.stop)
        self._finished: queue.SimpleQueue[tuple[str, NodeDone]] = queue.SimpleQueue()
        self._workers: list[threading.Thread] = []
        has_python = self.project.python or any(n.python or n.materialization for n in self.project)
        self.clock = WaitClock()
        self.gate = ChecksGate(self.clock, settings.stop)
        self.context = BuildContext(
            workspace, lake, lake_state, plan, engine, settings, listen, self.tests, self.state, self.gate, self.clock
        )
        self.python = PythonRunner(self.context) if has_python else None

    def run(self) -> BuildResult:
        """Carry the plan out; returns whatever fails or stops it, and raises only errors of the project itself."""
        began = time.monotonic()
        to_run = [n for n in self.plan.nodes if n.action == "run"]
        for node in self.plan.nodes:
            if node.action != "run":
                status = "skipped" if node.action == "skip" else "blocked"
                self._finish(NodeDone(node, status, node.run_type, node.detail))  # type: ignore[arg-type]
        recorder = Recorder(self.workspace, self.lake, self.settings, self.state.states)
        self.settings.announce("planned", "")
        if to_run or self.tests.due:
            self._prepare(to_run)
            # Whoever finds a stage of this run can tell whether its build is still alive.
            with self.lake.hold_run(self.settings.run_id, get_owner(self.workspace)) as alive:
                try:
                    self._start_validation(to_run)
                    started = self._run_hooks("on_run_start")
                    self._run_workers(to_run, started)
                    self.gate.settle()
                    self.tests.wait()
                except BaseException:
                    # Such as a Ctrl-C that the caller handles.
                    self._end_workers()
                    raise
                finally:
                    is_written = self._end_run(recorder)
                    alive.finished = is_written and not any(worker.is_alive() for worker in self._workers)
        nodes = (*(self.state.done[n.name] for n in self.plan.nodes), *self.hook_results)
        seconds = time.monotonic() - began
        interrupted = self.settings.stop.is_set()
        tests = tuple(self.tests.results.values())
        return BuildResult(self.plan, self.settings.run_id, nodes, seconds, self.engine.started, interrupted, tests)

    def _end_run(self, recorder: Recorder) -> bool:
        """Do what follows the nodes; whether the history is written. Where checks do not fit, nothing has run."""
        if self.gate.error is not None:
            return True
        self._run_end_hooks()
        return self._record_history(recorder)

    def _record_history(self, recorder: Recorder) -> bool:
        self.settings.announce("before history", "")
        passed = self.tests.record_passed(self.lake, self.state.states, self.settings.run_id)
        last_ms = max((state.made_ms or 0 for state in self.state.states.values()), default=0)
        problem = recorder.write_history(
            [*self.state.done.values(), *self.hook_results],
            passed,
            self._list_consumed_sources,
            last_ms,
            self._describe_run(),
        )
        if problem is not None and (passed or any(n.status == "ok" for n in self.state.done.values())):
            self.listen(Notice(f"the history of this run could not be written: {problem}"))
        self.settings.announce("history written", "")
        return problem is None

    def _describe_run(self) -> RunRecord:
        """What the history says of the whole run, beside each of its nodes."""
        started = self.engine.start_span
        statuses = [d.status for d in self.state.done.values()]
        return RunRecord(self.started_at.timestamp(), started, len(self.plan.nodes), statuses.count("skipped"))

    def _list_consumed_sources(self) -> list[FreshnessRow]:
        """The sources whose data has come to everything below them."""
        if self.settings.stop.is_set():
            return []
        # What loaders have filled is observed as it is now.
        lake_state = replace(self.lake_state, states=self.state.states, externals=self.state.externals)
        return list_consumed_sources(
            self.workspace, self.lake, lake_state, self.state.copy_relations(), self.settings.run_id, self.started_at
        )

    def _prepare(self, to_run: list[PlannedNode]) -> None:
        """Start what takes long while there is other work to do."""
        if any(self._needs_spark(n) and not n.pending for n in to_run):
            self.engine.warm()
        self._opening = threading.Thread(target=self._open_lake, args=(to_run,), name="open-lake", daemon=True)
        self._opening.start()

    def _needs_spark(self, planned: PlannedNode) -> bool:
        node = self.project.nodes.get(planned.name)
        return node is not None and needs_spark(planned, node)

    def _start_validation(self, to_run: list[PlannedNode]) -> None:
        """Hold checks against the columns that models will have, while what needs no Spark runs.

        Hooks do things outside of the lake, which cannot be taken back: they come after.
        """

        def validate() -> None:
            self.gate.open_after(lambda: self._validate_checks(to_run))
            if self.gate.error is None:
                self.tests.start(self._compute_width())

        if self._can_validate(to_run) and not self._has_start_hooks():
            threading.Thread(target=validate, name="validate-checks", daemon=True).start()
            return
        validate()
        self.gate.raise_error()

    def _has_start_hooks(self) -> bool:
        return any(n.type == "hook" and n.kind == "on_run_start" for n in self.project.python.values())

    def _can_validate(self, to_run: list[PlannedNode]) -> bool:
        """Whether there are checks to be validated, and Spark is started in any case."""
        nodes = [n for n in to_run if n.name in self.project.nodes]
        if not any(self.project.nodes[n.name].checks.checks for n in nodes if n.reuse is None or not n.reuse.checked):
            return False
        # Loaders may have nothing new, and then nothing needs Spark.
        return self.python is None or any(self._needs_spark(n) and not n.pending for n in nodes)

    def _validate_checks(self, to_run: list[PlannedNode]) -> None:
        if not self._can_validate(to_run):
            return
        try:
            session = self.engine.session()
        except KeyboardInterrupt:
            raise
        except BaseException:  # the nodes that need Spark meet the same error and report it
            return
        self.listen(PhaseStarted("checking columns"))
        externals, files = self.state.externals, self.lake_state.files
        try:
            for node in to_run:
                if node.name in self.project.nodes:
                    with suppress(SqbError):  # the node that reads them meets the same error and reports it
                        self.files.register(session, self.project.nodes[node.name].after, self.project)
            validate_checks(self.plan, self.workspace, externals, self.state.states.get, session, files)
        except SqbError:
            raise
        except Exception:  # Spark is in trouble: so will be the nodes, which report it
            return
        finally:
            self.listen(PhaseStarted(""))

    def _open_lake(self, to_run: list[PlannedNode]) -> None:
        try:
            self.lake.ensure_schemas(
                {n.relation.schema for n in to_run if n.relation is not None and n.type != "loader"}
            )
        except Exception:  # the node that needs it meets the same error and reports it
            return

    # --- scheduling -----------------------------------------------------------------------------------------------

    def _run_hooks(self, kind: str, extra: Mapping[str, Any] | None = None) -> bool:
        """Run the hooks of one kind; whether all went well."""
        done = self.python.run_hooks(kind, extra) if self.python is not None and not self.settings.continues else []
        self.hook_results += done
        return all(d.status != "failed" for d in done)

    def _run_end_hooks(self) -> None:
        if self.python is None:
            return
        results = [d.to_data() for d in (*self.state.done.values(), *self.hook_results) if d.planned.action != "skip"]
        payload = {"results": results, "failures": [r for r in results if r["status"] == "failed"]}
        if payload["failures"]:
            self._run_hooks("on_failure", payload)
        self._run_hooks("on_run_end", payload)

    def _run_workers(self, to_run: list[PlannedNode], started: bool) -> None:
        planned = {n.name: n for n in to_run}
        if not started:
            self._abandon({n.name: set() for n in to_run}, planned, "a hook failed before anything ran")
            return
        # Seeds and loaders come first: they are read while Spark is still starting.
        first = sorted(to_run, key=lambda n: (n.type not in ("seed", "loader"), self._needs_spark(n)))
        waiting = {n.name: {u for u in n.upstream if u in planned} for n in first}
        self._queue: queue.SimpleQueue[PlannedNode | None] = queue.SimpleQueue()
        try:
            self._dispatch(waiting, planned)
        finally:
            for _ in self._workers:
                self._queue.put(None)
            self.classifications.save(self.project.nodes)
        for worker in self._workers:
            # Nothing runs any more; one that is seen alive would make the run look as if it had been killed.
            worker.join(_SECONDS_TO_END)

    def _end_workers(self) -> None:
        """Stop what runs, and wait for it: no worker may publish after the run has been released."""
        self.settings.stop.set()
        until = time.monotonic() + _SECONDS_TO_END
        while any(worker.is_alive() for worker in self._workers) and time.monotonic() < until:
            self.engine.cancel()
            time.sleep(_PAUSE)
        while not self._finished.empty():
            self._finish(self._finished.get()[1])

    def _dispatch(self, waiting: dict[str, set[str]], planned: Mapping[str, PlannedNode]) -> None:
        """Give nodes to the workers as soon as what they read is there, until all have ended."""
        running: set[str] = set()
        while waiting or running:
            self.gate.raise_error()
            if self.is_stopping():
                self._abandon(waiting, planned)
                if self.settings.stop.is_set():
                    self.engine.cancel()
            self._skip_hard(waiting, planned)
            ready = [n for n, above in waiting.items() if not above]
            # No more than may run at once: what is handed out cannot be taken back. Who waits for others does not run.
            for name in ready[: max(0, self._compute_width() + self.gate.held - len(running))]:
                del waiting[name]
                running.add(name)
                self._start_worker(len(running))
                self._queue.put(planned[name])
            if not running:
                break
            try:
                name, done = self._finished.get(timeout=0.2)
            except queue.Empty:
                continue
            running.discard(name)
            self._finish(done)
            for above in waiting.values():
                above.discard(name)
            if done.status != "ok" and done.status != "skipped":
                self._block(name, done, waiting, planned)

    def _start_worker(self, required: int) -> None:
        """Have one more worker, unless there are as many as are required."""
        if len(self._workers) < required:
            name = f"worker-{len(self._workers)}"
            number = len(self._workers)
            self._workers.append(threading.Thread(target=self._work, args=(number,), name=name, daemon=True))
            self._workers[-1].start()

    def _compute_width(self) -> int:
        return max(1, self.settings.concurrency)

    def is_stopping(self) -> bool:
        """Whether nothing more is to be begun."""
        failed = self.settings.fail_fast and any(d.status == "failed" for d in self.state.done.values())
        return failed or self.settings.stop.is_set()

    def _abandon(self, waiting: dict[str, set[str]], planned: Mapping[str, PlannedNode], because: str = "") -> None:
        why = because or ("the build was interrupted" if self.settings.stop.is_set() else "stopped by --fail-fast")
        for name in list(waiting):
            del waiting[name]
            self._finish(NodeDone(planned[name], "blocked", "skip", why))

    def _block(
        self, name: str, done: NodeDone, waiting: dict[str, set[str]], planned: Mapping[str, PlannedNode]
    ) -> None:
        """Everything that reads a failed node, directly or not, does not run."""
        fallen = {name}
        for other in [n for n in (p.name for p in self.plan.nodes) if n in waiting]:
            above = next((u for u in planned[other].upstream if u in fallen), None)
            if above is not None:
                fallen.add(other)
                del waiting[other]
                if done.status == "blocked":  # it was stopped, and so are those
                    self._finish(NodeDone(planned[other], "blocked", "skip", done.detail))
                    continue
                blocked = replace(planned[other], reason=Reason.UPSTREAM_FAILED)
                self._finish(NodeDone(blocked, "blocked", "skip", f"upstream {name} failed"))

    def _skip_hard(self, waiting: dict[str, set[str]], planned: Mapping[str, PlannedNode]) -> None:
        """Nodes below a hard skip do not run; decided when all above has ended, because a failure counts more."""
        for name in [n for n in (p.name for p in self.plan.nodes) if n in waiting]:
            hard = [u for u in planned[name].upstream if u in self.state.done and self.state.done[u].skip == "hard"]
            if not waiting[name] and hard:
                del waiting[name]
                done = NodeDone(planned[name], "skipped", "skip", f"upstream {hard[0]} skipped", skip="hard")
                self._finish(self.state.mark_overtaken(done) if self.state.overtaken.issuperset(hard) else done)
                for others in waiting.values():
                    others.discard(name)

    def _finish(self, done: NodeDone) -> None:
        self.state.finish_node(done)
        # Where checks do not fit, the build ends as if nothing had run.
        if done.name not in self.state.overtaken and self.gate.error is None:
            self.listen(done)

    # --- one node -------------------------------------------------------------------------------------------------

    def _work(self, number: int) -> None:
        while (planned := self._queue.get()) is not None:
            began = time.time()
            done = self._run_node(planned)
            self._finished.put((planned.name, replace(done, span=WorkSpan(began, time.time(), number))))

    def _run_node(self, planned: PlannedNode) -> NodeDone:
        if self.python is not None and planned.name in self.project.python:
            return self.python.run_node(planned)
        return run_node(self.context, planned, self._try_node)

    def _try_node(self, planned: PlannedNode) -> NodeDone:
        """Run, recheck, adopt or skip one node with its inputs as they are now; a failure becomes its result."""
        began = self._read_own_time()
        node = self.project.nodes[planned.name]
        context: NodeContext | None = None
        attempted: NodeContext | None = None
        replayed: list[Span] = []
        try:
            inputs = self._list_inputs(node)
            same = planned.pending and (planned.run_type == "check" or not self._has_changed(node))
            adopts = planned.prior is not None and (same or planned.run_type == "reuse")
            if same and not adopts and self._has_passed_checks(node):
                self.tests.rerun_changed(node.name, dict(self.state.states))
                return NodeDone(planned, "skipped", "skip", self._explain_identical(node, inputs))
            if needs_spark(planned, node) and not (adopts and self._has_passed_checks(node) and not node.hooks):
                self.listen(NodeWaiting(node.name))
                self._get_session()
                self.settings.announce("engine started", node.name)
            if node.type != "seed":
                # A seed is staged first, and published when the checks are known to fit.
                self.gate.wait()
            with self.clock.count_wait():
                # A table can only be made in a schema that is there.
                self._opening.join()
            planned = self._replan_reuse(node, planned)
            attempted = replace(self._build_context(node, planned, inputs), report_replay=replayed.append)
            with self.clock.count_wait():
                self.tests.raise_failures(node.name, dict(self.state.states))
            self.listen(NodeStarted(node.name, node.kind))
            context = attempted
            if self.lake_state.files and node.type == "model":
                self.files.register(self._get_session(), node.after, self.project)
            checked_only = (same or planned.run_type == "check") and not adopts
            if adopts:
                outcome = build_with_hooks(context, adopt_version)
            else:
                context = self._begin_version(context)
                outcome = (
                    recheck_relation(context)
                    if checked_only
                    else build_with_hooks(context, self._choose_builder(node, planned))
                )
        except BaseException as error:
            attempt = build_attempt(context or attempted, replayed[-1] if replayed else None)
            return self._report_failure(error, planned, began, context, attempt)
        self._adopt_outcome(node, outcome)
        return self._report_success(planned, outcome, self._read_own_time() - began)

    def _read_own_time(self) -> float:
        """The clock of this thread, which stops while it waits for others."""
        return time.monotonic() - self.clock.waited

    def _get_session(self) -> Any:
        """This thread's session; waiting for Spark to start does not count as a node's run time."""
        with self.clock.count_wait():
            return self.engine.session()

    def _report_failure(
        self,
        error: BaseException,
        planned: PlannedNode,
        began: float,
        context: NodeContext | None,
        attempt: dict[str, Any],
    ) -> NodeDone:
        """What became of a node that did not come to its end: `context` is there once it had started."""
        if self.settings.stop.is_set():
            interrupted = Interrupted("interrupted")
            return NodeDone(planned, "blocked", "skip", "the build was interrupted", error=interrupted)
        if isinstance(error, ModelSkipped):
            return NodeDone(planned, "skipped", "skip", error.reason, skip=error.mode)
        moved = self._find_moved_files(self.project.nodes[planned.name])
        explanation = explain_error(moved or error, context, self.workspace.root, self.engine)
        seconds = self._read_own_time() - began
        return NodeDone(
            planned, "failed", planned.run_type, planned.detail, 0, seconds, error=explanation, recorded=attempt
        )

    def _report_success(self, planned: PlannedNode, outcome: NodeOutcome, seconds: float) -> NodeDone:
        for notice in outcome.notices:
            self.listen(Notice(f"{planned.name}: {notice}"))
        return NodeDone(
            planned,
            "ok",
            outcome.run_type or _prepare_full_run(planned).run_type,
            outcome.detail or planned.detail,
            outcome.rows,
            seconds,
            outcome.snapshot_id,
            identical=outcome.identical,
            wrote=outcome.wrote,
            findings=outcome.findings,
        )

    def _begin_version(self, context: NodeContext) -> NodeContext:
        """The context, on a clone of the prior version where the new version has no table yet."""
        if context.planned.prior is None or context.current is not None:
            return context
        begun = begin_version(context)
        self._adopt_outcome(context.node, NodeOutcome(0, None, begun.current))
        return begun

    def _choose_builder(self, node: Node, planned: PlannedNode) -> Callable[[NodeContext], NodeOutcome]:
        """How the node gets its rows: as its kind does, or first from another target."""
        if node.materialization and self.python is not None:
            return self.python.build_materializer(node)
        build = KINDS[node.kind]
        if node.python and self.python is not None:
            kind_builder, python = build, self.python
            build = lambda turn: build_python_model(turn, kind_builder, python)  # noqa: E731
        if planned.reuse is None:
            return build
        return lambda context: reuse_node(context, build, self.state)

    def _replan_reuse(self, node: Node, planned: PlannedNode) -> PlannedNode:
        """The node taken over from another target, where what came out above is what that was made from."""
        if self.project.other_target is None or planned.run_type in ("check", "reuse"):
            return planned
        observed = replace(self.lake_state.observed, relations=self.state.copy_relations())
        return replan_reuse(planned, node, self.project, observed, self.plan.options)

    def _find_moved_files(self, node: Node) -> SqbError | None:
        """What happened to the files of a node that failed, which may be why."""
        try:
            check_files(node, self.project, self.lake_state.files)
        except SqbError as error:
            return error
        return None

    def _list_inputs(self, node: Node) -> tuple[tuple[Input, Version], ...]:
        """What the node is about to read, and the version of each that this build reads."""
        relations = self.state.copy_relations()
        return list_versions_read(node, self.project, relations)

    def _has_changed(self, node: Node) -> bool:
        relations = self.state.copy_relations()
        current = relations.get(node.relation)
        return current is None or bool(list_changed_inputs(node, self.project, current, relations))

    def _explain_identical(self, node: Node, inputs: tuple[tuple[Input, Version], ...]) -> str:
        is_view = node.kind == "view"
        recorded = self.state.copy_relations()[node.relation].sources
        if all(is_same_version(recorded.get(i.key), version, is_view) for i, version in inputs):
            return f"upstream {'columns' if is_view else 'output'} identical"
        if any(i.name in list_quiet_lookups(node) for i, _ in inputs):
            return "upstream changed in lookups only"
        return "upstream identical in the columns that it reads"

    def _has_passed_checks(self, node: Node) -> bool:
        """Whether the node's checks have passed on its current rows, with the current versions of what they read."""
        relations = self.state.copy_relations()
        current = relations.get(node.relation)
        if current is None or not node.checks_hash:
            return current is not None and not current.checks
        return has_passed_checks(node, self.project, relations)

    def _adopt_outcome(self, node: Node, outcome: NodeOutcome) -> None:
        if outcome.state is None:
            return
        pinned = read_pinned_versions(node.name, self.pinned_inputs, self.project, self.lake)
        self.state.adopt_states({node.relation: outcome.state, **pinned})

    def _build_context(
        self, node: Node, planned: PlannedNode, inputs: tuple[tuple[Input, Version], ...]
    ) -> NodeContext:
        relations = self.state.copy_relations()
        return NodeContext(
            node=node,
            planned=_prepare_full_run(planned),
            workspace=self.workspace,
            lake=self.lake,
            current=self.state.states.get(node.relation),
            inputs=inputs,
            states=self.state.states.get,
            externals=self.state.externals,
            session=self._get_session,
            await_checks=lambda: self.gate.hold(lambda: self.listen(NodeWaiting(node.name))),
            classifications=self.classifications,
            run_id=self.settings.run_id,
            git=self.settings.git,
            announce=self.settings.announce,
            checks_token=compute_checks_token(node, self.project, relations),
            store_failures=self.settings.store_failures,
            full_refresh=self.plan.options.full_refresh,
            allow_data_loss=self.settings.allow_data_loss,
            now=self.started_at,
            replay=compute_replay(node, planned.reason, self.project, relations, self.plan.options),
            replays_seen=encode_seen((i for i, _ in inputs), relations),
            window=get_window(node, self.plan.options),
            files=self.lake_state.files,
        )


def _prepare_full_run(planned: PlannedNode) -> PlannedNode:
    """What is planned, less that it follows changes: the kind decides that again, and says so when it has done it."""
    return replace(planned, run_type="full") if planned.run_type == "incremental" else planned
