"""A Plan carried out: nodes run in parallel as soon as what they read is there.

A failed node blocks what reads it, and nothing else. What is published stays published; what is not leaves nothing.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from sqb.build.checking import recheck
from sqb.build.contention import take_turn
from sqb.build.engine import LazyEngine
from sqb.build.events import Event, NodeDone, NodeStarted, NodeWaiting, Notice
from sqb.build.failures import explained
from sqb.build.freshness_record import taken_in
from sqb.build.hooks import with_hooks
from sqb.build.kinds import KINDS
from sqb.build.observe import Look, standing_of
from sqb.build.preflight import refuse_wrong_checks
from sqb.build.prior import adopted, as_before
from sqb.build.python_models import ModelSkipped, build_python_model
from sqb.build.python_turns import PythonTurns
from sqb.build.record import Recorder
from sqb.build.recovery import owner_of
from sqb.build.result import BuildResult
from sqb.build.reuse import build_reused, needs_spark
from sqb.build.source_files import NamedFiles, refuse_moved
from sqb.build.steps import Announce, silent
from sqb.build.testing import tests_of
from sqb.build.turn import Outcome, Turn
from sqb.compiled import Node, UnitTest
from sqb.errors import Interrupted, SqbError
from sqb.lake.iceberg import IcebergLake
from sqb.lake.port import TableState
from sqb.lake.state import FreshnessRow
from sqb.names import Relation
from sqb.plan.cascade import record_seen
from sqb.plan.observed import (
    Input,
    Standing,
    Version,
    changed_inputs,
    checks_token,
    has_passed,
    quiet_lookups,
    same_version,
    versions_read,
)
from sqb.plan.replaying import replay_now, window_of
from sqb.plan.reuse import reuse_now
from sqb.plan.values import Plan, PlannedNode, Reason
from sqb.workspace import Workspace

Listen = Callable[[Event], None]
# How long a build that something breaks into waits for its nodes to end.
_SECONDS_TO_END = 10.0
_PAUSE = 0.2


@dataclass(slots=True)
class BuildSettings:
    """How a build is to be carried out."""

    run_id: str
    concurrency: int = 4
    fail_fast: bool = False
    git: str = ""
    announce: Announce = silent
    store_failures: bool = False
    allow_data_loss: bool = False
    stop: threading.Event = field(default_factory=threading.Event)
    # A further round of the same build, whose hooks around the whole have run or are yet to.
    continues: bool = False


class Build:
    """One build of one plan."""

    def __init__(
        self,
        workspace: Workspace,
        lake: IcebergLake,
        look: Look,
        plan: Plan,
        engine: LazyEngine,
        settings: BuildSettings,
        listen: Listen,
        due: Sequence[UnitTest] = (),
    ) -> None:
        self.workspace, self.lake, self.look, self.plan = workspace, lake, look, plan
        self.project = workspace.project
        self.engine, self.settings, self.listen = engine, settings, listen
        self.states: dict[Relation, TableState] = dict(look.states)
        self.relations: dict[Relation, Standing] = dict(look.observed.relations)
        # Where externals are in the catalog; loaders make some of them.
        self.externals: dict[str, Relation] = dict(look.externals)
        # The versions that were taken over from another target, before anything changed on top of them.
        self.baselines: dict[Relation, Version] = {}
        self.done: dict[str, NodeDone] = {}
        self.hooked: list[NodeDone] = []
        # Nodes that another build has made from newer versions than this one reads, and what is below them.
        self.left: set[str] = set()
        self.cut = datetime.now(UTC)
        self.files = NamedFiles(look.files)
        self.tests = tests_of(workspace, look, plan, due, engine, listen, settings.stop)
        self._finished: queue.SimpleQueue[tuple[str, NodeDone]] = queue.SimpleQueue()
        self._workers: list[threading.Thread] = []
        self.lock = threading.Lock()
        has_python = self.project.python or any(n.python or n.materialization for n in self.project)
        self.python = PythonTurns(self) if has_python else None

    def run(self) -> BuildResult:
        """Carry the plan out; returns whatever fails or stops it, and raises only errors of the project itself."""
        began = time.monotonic()
        to_run = [n for n in self.plan.nodes if n.action == "run"]
        for node in self.plan.nodes:
            if node.action != "run":
                status = "skipped" if node.action == "skip" else "blocked"
                self._finish(NodeDone(node, status, node.run_type, node.detail))  # type: ignore[arg-type]
        recorder = Recorder(self.workspace, self.lake, self.settings, self.states)
        self.settings.announce("planned", "")
        if to_run or self.tests.due:
            self._prepare(to_run)
            self._refuse_wrong_checks(to_run)
            # Whoever finds a stage of this run can tell whether somebody still works on it.
            with self.lake.running(self.settings.run_id, owner_of(self.workspace)) as alive:
                try:
                    started = self._hooks("on_run_start")
                    self.tests.start(self._width())
                    self._schedule(to_run, started)
                    self.tests.wait()
                except BaseException:
                    # Such as a Ctrl-C that somebody else handles.
                    self._end_workers()
                    raise
                finally:
                    self._end_hooks()
                    is_written = self._write_history(recorder)
                    alive.finished = is_written and not any(worker.is_alive() for worker in self._workers)
        nodes = (*(self.done[n.name] for n in self.plan.nodes), *self.hooked)
        seconds = time.monotonic() - began
        interrupted = self.settings.stop.is_set()
        tests = tuple(self.tests.results.values())
        return BuildResult(self.plan, self.settings.run_id, nodes, seconds, self.engine.started, interrupted, tests)

    def _write_history(self, recorder: Recorder) -> bool:
        self.settings.announce("before history", "")
        passed = self.tests.remember(self.lake, self.states, self.settings.run_id)
        last_ms = max((state.made_ms or 0 for state in self.states.values()), default=0)
        problem = recorder.write([*self.done.values(), *self.hooked], passed, self._taken_in, last_ms)
        if problem is not None and (passed or any(n.status == "ok" for n in self.done.values())):
            self.listen(Notice(f"the history of this run could not be written: {problem}"))
        self.settings.announce("history written", "")
        return problem is None

    def _taken_in(self) -> list[FreshnessRow]:
        """The sources whose data has come to everything below them."""
        if self.settings.stop.is_set():
            return []
        # What loaders have filled is observed as it is now.
        look = replace(self.look, states=self.states, externals=self.externals)
        return taken_in(self.workspace, self.lake, look, self.relations, self.settings.run_id, self.cut)

    def _prepare(self, to_run: list[PlannedNode]) -> None:
        """Start what takes long while there is other work to do."""
        if any(self._needs_spark(n) and not n.pending for n in to_run):
            self.engine.warm()
        self._opening = threading.Thread(target=self._open_lake, args=(to_run,), name="open-lake", daemon=True)
        self._opening.start()

    def _needs_spark(self, planned: PlannedNode) -> bool:
        node = self.project.nodes.get(planned.name)
        return node is not None and needs_spark(planned, node)

    def _refuse_wrong_checks(self, to_run: list[PlannedNode]) -> None:
        """Hold checks against the columns that models will have, before anything runs."""
        to_run = [n for n in to_run if n.name in self.project.nodes]
        if not any(self.project.nodes[n.name].checks for n in to_run if n.reuse is None or not n.reuse.checked):
            return
        if self.python is not None and not any(self._needs_spark(n) and not n.pending for n in to_run):
            # Loaders may have nothing new, and then nothing needs Spark.
            return
        try:
            session = self.engine.session()
        except KeyboardInterrupt:
            raise
        except BaseException:  # the nodes that need Spark meet the same error and report it
            return
        externals, files = self.externals, self.look.files
        try:
            for node in to_run:
                with suppress(SqbError):  # the node that reads them meets the same error and reports it
                    self.files.name(session, self.project.nodes[node.name].after, self.project)
            refuse_wrong_checks(self.plan, self.workspace, externals, self.states.get, session, files)
        except SqbError:
            raise
        except Exception:  # Spark is in trouble: so will be the nodes, which report it
            return

    def _open_lake(self, to_run: list[PlannedNode]) -> None:
        try:
            self.lake.ensure_schemas(
                {n.relation.schema for n in to_run if n.relation is not None and n.type != "loader"}
            )
        except Exception:  # the node that needs it meets the same error and reports it
            return

    # --- scheduling -----------------------------------------------------------------------------------------------

    def _hooks(self, kind: str, extra: Mapping[str, Any] | None = None) -> bool:
        """Run the hooks of one kind; whether all went well."""
        done = self.python.hooks(kind, extra) if self.python is not None and not self.settings.continues else []
        self.hooked += done
        return all(d.status != "failed" for d in done)

    def _end_hooks(self) -> None:
        if self.python is None:
            return
        results = [d.to_data() for d in (*self.done.values(), *self.hooked) if d.planned.action != "skip"]
        told = {"results": results, "failures": [r for r in results if r["status"] == "failed"]}
        if told["failures"]:
            self._hooks("on_failure", told)
        self._hooks("on_run_end", told)

    def _schedule(self, to_run: list[PlannedNode], started: bool) -> None:
        planned = {n.name: n for n in to_run}
        if not started:
            self._abandon({n.name: set() for n in to_run}, planned, "a hook failed before anything ran")
            return
        # Seeds come first: they are loaded while Spark is still starting.
        first = sorted(to_run, key=lambda n: n.type != "seed")
        waiting = {n.name: {u for u in n.upstream if u in planned} for n in first}
        names = [f"worker-{i}" for i in range(self._width())]
        self._workers = [threading.Thread(target=self._work, name=name, daemon=True) for name in names]
        self._turns: queue.SimpleQueue[PlannedNode | None] = queue.SimpleQueue()
        for worker in self._workers:
            worker.start()
        try:
            self._hand_out(waiting, planned)
        finally:
            for _ in self._workers:
                self._turns.put(None)
        for worker in self._workers:
            # Nothing runs any more; one that is seen alive would make the run look as if it had been killed.
            worker.join(_SECONDS_TO_END)

    def _end_workers(self) -> None:
        """Stop what runs, and wait for it: nobody is to publish anything when the run has been let go of."""
        self.settings.stop.set()
        until = time.monotonic() + _SECONDS_TO_END
        while any(worker.is_alive() for worker in self._workers) and time.monotonic() < until:
            self.engine.cancel()
            time.sleep(_PAUSE)
        while not self._finished.empty():
            self._finish(self._finished.get()[1])

    def _hand_out(self, waiting: dict[str, set[str]], planned: Mapping[str, PlannedNode]) -> None:
        """Give nodes to the workers as soon as what they read is there, until all have ended."""
        running: set[str] = set()
        while waiting or running:
            if self.is_stopping():
                self._abandon(waiting, planned)
                if self.settings.stop.is_set():
                    self.engine.cancel()
            self._skip_hard(waiting, planned)
            ready = [n for n, above in waiting.items() if not above]
            # No more than the workers can take at once: what is handed out cannot be taken back.
            for name in ready[: self._width() - len(running)]:
                del waiting[name]
                running.add(name)
                self._turns.put(planned[name])
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

    def _width(self) -> int:
        return max(1, self.settings.concurrency)

    def is_stopping(self) -> bool:
        """Whether nothing more is to be begun."""
        failed = self.settings.fail_fast and any(d.status == "failed" for d in self.done.values())
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
        """What stands below a hard skip does not run; told when all above has ended: a failure counts more."""
        for name in [n for n in (p.name for p in self.plan.nodes) if n in waiting]:
            hard = [u for u in planned[name].upstream if u in self.done and self.done[u].skip == "hard"]
            if not waiting[name] and hard:
                del waiting[name]
                done = NodeDone(planned[name], "skipped", "skip", f"upstream {hard[0]} skipped", skip="hard")
                self._finish(self.leave(done) if self.left.issuperset(hard) else done)
                for others in waiting.values():
                    others.discard(name)

    def _finish(self, done: NodeDone) -> None:
        self.done[done.planned.name] = done
        if done.name not in self.left:
            self.listen(done)

    def leave(self, done: NodeDone) -> NodeDone:
        """Leave a node, and with it what is below, to be looked at again when all else is done."""
        with self.lock:
            self.left.add(done.name)
        return done

    # --- one node -------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (planned := self._turns.get()) is not None:
            self._finished.put((planned.name, self._take_turn(planned)))

    def _take_turn(self, planned: PlannedNode) -> NodeDone:
        if self.python is not None and planned.name in self.project.python:
            return self.python.take(planned)
        return take_turn(self, planned, self._try_turn)

    def _try_turn(self, planned: PlannedNode) -> NodeDone:
        began = time.monotonic()
        node = self.project.nodes[planned.name]
        turn: Turn | None = None
        try:
            inputs = self._inputs(node)
            same = planned.pending and (planned.run_type == "check" or not self._changed(node))
            adopts = planned.prior is not None and (same or planned.run_type == "reuse")
            if same and not adopts and self._is_checked(node):
                self.tests.renew(node.name, dict(self.states))
                return NodeDone(planned, "skipped", "skip", self._why_same(node, inputs))
            if needs_spark(planned, node) and not (adopts and self._is_checked(node) and not node.hooks):
                # Waiting for Spark to start is nobody's run time.
                self.listen(NodeWaiting(node.name))
                self.engine.session()
                self.settings.announce("engine started", node.name)
                began = time.monotonic()
            # A table can only be made in a schema that is there.
            self._opening.join()
            planned = self._reusing(node, planned)
            self.tests.refuse_untrue(node.name, dict(self.states))
            self.listen(NodeStarted(node.name, node.kind))
            turn = self._turn(node, planned, inputs)
            if self.look.files and node.type == "model":
                self.files.name(self.engine.session(), node.after, self.project)
            checked_only = (same or planned.run_type == "check") and not adopts
            if adopts:
                outcome = with_hooks(turn, adopted)
            else:
                turn = self._begun(turn)
                outcome = recheck(turn) if checked_only else with_hooks(turn, self._kind(node, planned))
        except BaseException as error:
            if self.settings.stop.is_set():
                return NodeDone(
                    planned, "blocked", "skip", "the build was interrupted", error=Interrupted("interrupted")
                )
            if isinstance(error, ModelSkipped):
                return NodeDone(planned, "skipped", "skip", error.reason, skip=error.mode)
            found = explained(self._moved_under(node) or error, turn, self.workspace.root, self.engine)
            return NodeDone(
                planned, "failed", planned.run_type, planned.detail, 0, time.monotonic() - began, error=found
            )
        self._take_over(node, outcome)
        seconds = time.monotonic() - began
        for notice in outcome.notices:
            self.listen(Notice(f"{node.name}: {notice}"))
        return NodeDone(
            planned,
            "ok",
            outcome.run_type or planned.run_type,
            outcome.detail or planned.detail,
            outcome.rows,
            seconds,
            outcome.snapshot_id,
            identical=outcome.identical,
            wrote=outcome.wrote,
            findings=outcome.findings,
        )

    def _begun(self, turn: Turn) -> Turn:
        """The turn, begun with the rows of the version before where the new one has no table yet."""
        if turn.planned.prior is None or turn.standing is not None:
            return turn
        begun = as_before(turn)
        self._take_over(turn.node, Outcome(0, None, begun.standing))
        return begun

    def _kind(self, node: Node, planned: PlannedNode) -> Callable[[Turn], Outcome]:
        """How the node gets its rows: as its kind does, or first from another target."""
        if node.materialization and self.python is not None:
            return self.python.materializing(node)
        build = KINDS[node.kind]
        if node.python and self.python is not None:
            own, python = build, self.python
            build = lambda turn: build_python_model(turn, own, python)  # noqa: E731
        if planned.reuse is None:
            return build
        with self.lock:
            relations = dict(self.relations)
        return lambda turn: build_reused(turn, build, relations, self.baselines)

    def _reusing(self, node: Node, planned: PlannedNode) -> PlannedNode:
        """The node taken over from another target, where what came out above is what that was made from."""
        if self.project.elsewhere is None or planned.run_type in ("check", "reuse"):
            return planned
        with self.lock:
            observed = replace(self.look.observed, relations=dict(self.relations))
        return reuse_now(planned, node, self.project, observed, self.plan.options)

    def _moved_under(self, node: Node) -> SqbError | None:
        """What happened to the files of a node that failed, which may be why."""
        try:
            refuse_moved(node, self.project, self.look.files)
        except SqbError as error:
            return error
        return None

    def _inputs(self, node: Node) -> tuple[tuple[Input, Version], ...]:
        """What the node is about to read, and the version of each that this build reads."""
        with self.lock:
            relations = dict(self.relations)
        return versions_read(node, self.project, relations)

    def _changed(self, node: Node) -> bool:
        with self.lock:
            relations = dict(self.relations)
        standing = relations.get(node.relation)
        return standing is None or bool(changed_inputs(node, self.project, standing, relations))

    def _why_same(self, node: Node, inputs: tuple[tuple[Input, Version], ...]) -> str:
        is_view = node.kind == "view"
        with self.lock:
            recorded = self.relations[node.relation].sources
        if all(same_version(recorded.get(i.key), version, is_view) for i, version in inputs):
            return f"upstream {'columns' if is_view else 'output'} identical"
        if any(i.name in quiet_lookups(node) for i, _ in inputs):
            return "upstream changed in lookups only"
        return "upstream identical in the columns that it reads"

    def _is_checked(self, node: Node) -> bool:
        """Whether the node's checks have passed on what stands there, looking at what they look at now."""
        with self.lock:
            relations = dict(self.relations)
        standing = relations.get(node.relation)
        if standing is None or not node.checks_hash:
            return standing is not None and not standing.checks
        return has_passed(node, self.project, relations)

    def _take_over(self, node: Node, outcome: Outcome) -> None:
        if outcome.state is not None:
            with self.lock:
                self.states[node.relation] = outcome.state
                self.relations[node.relation] = standing_of(outcome.state)

    def _turn(self, node: Node, planned: PlannedNode, inputs: tuple[tuple[Input, Version], ...]) -> Turn:
        with self.lock:
            relations = dict(self.relations)
        return Turn(
            node=node,
            planned=planned,
            workspace=self.workspace,
            lake=self.lake,
            standing=self.states.get(node.relation),
            inputs=inputs,
            states=self.states.get,
            externals=self.externals,
            session=self.engine.session,
            run_id=self.settings.run_id,
            git=self.settings.git,
            announce=self.settings.announce,
            checks_token=checks_token(node, self.project, relations),
            store_failures=self.settings.store_failures,
            full_refresh=self.plan.options.full_refresh,
            allow_data_loss=self.settings.allow_data_loss,
            now=self.cut,
            replay=replay_now(node, planned.reason, self.project, relations, self.plan.options),
            replays_seen=record_seen((i for i, _ in inputs), relations),
            window=window_of(node, self.plan.options),
            files=self.look.files,
        )
