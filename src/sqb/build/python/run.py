"""Runs Python nodes: whether a node has something to do, its run in a child process, and its outcome."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sqb.build.context import BuildContext
from sqb.build.errors import explain_error, prefer_spark_loss
from sqb.build.events import NodeDone, NodeSaid, NodeStarted, NodeWaiting, Notice
from sqb.build.kinds.custom import build_custom, build_unfinished_settings
from sqb.build.load.load import Load, load_files, load_frame
from sqb.build.node.concurrent_builds import MAX_TRIES, reread_state
from sqb.build.node.context import NodeContext, NodeOutcome
from sqb.build.node.render import build_live_names, build_pinned_names
from sqb.build.python.child_process import Answer, Call, run_with_retries
from sqb.build.python.loader_memory import has_committed_result, read_loader_identity, stage_result
from sqb.build.python.services import NodeServices
from sqb.compile.model import Node
from sqb.compile.python.model import PythonNode
from sqb.errors.build import CheckFailed, Interrupted
from sqb.errors.lake import Conflict
from sqb.lake.port import build_conflict
from sqb.names import Relation
from sqb.plan.model import PlannedNode
from sqb.plan.python_nodes import decide_hook, iter_python_above, list_changed_tables, record_tables

_IDENTICAL = "upstream output identical"


class PythonRunner:
    """Runs the Python nodes of one build."""

    def __init__(self, build: BuildContext) -> None:
        self.build = build
        self.project, self.settings = build.project, build.settings

    def run_node(self, planned: PlannedNode) -> NodeDone:
        """Run a Python node; whatever it does is an outcome, never an exception."""
        node = self.project.python[planned.name]
        if (skipped := self._find_skip(node, planned)) is not None:
            return skipped
        self.build.listen(NodeStarted(node.name, node.type))
        began = self._read_own_time()
        done = self._try_node(node, planned)
        for _ in range(MAX_TRIES):
            if node.type != "loader" or not isinstance(done.error, Conflict) or self.settings.stop.is_set():
                break
            if (obstacle := self._go_on_after_other(node)) is not None:
                done = replace(done, error=build_conflict(self._get_filled_relation(node), obstacle))
                break
            self.log(f"{node.name}: another build has loaded at the same time; running again, after its rows")
            done = self._try_node(node, planned)
        done = replace(done, seconds=done.seconds or self._read_own_time() - began)
        if done.status == "blocked" or self.settings.stop.is_set():
            detail, stopped = "the build was interrupted", Interrupted("interrupted")
            return replace(done, status="blocked", run_type="skip", detail=detail, error=stopped)
        return done

    def _try_node(self, node: PythonNode, planned: PlannedNode) -> NodeDone:
        run_record = self._build_run_record(node)
        try:
            if node.type != "loader":
                # It may do anything outside of the lake; a loader fetches, and its rows wait.
                self.build.gate.wait()
            done = self._run_function(node, planned)
        except BaseException as error:
            done = self._build_failed(planned, error)
        return replace(done, recorded=run_record)

    def _go_on_after_other(self, node: PythonNode) -> str | None:
        """Let a loader go on from the rows of another build that ran it at the same time; or why it may not.

        It then runs as it would in a build after that one. It must know what the other one remembers, else it would
        load the same rows again.
        """
        relation = self._get_filled_relation(node)
        before, state = self.build.state.states.get(relation), reread_state(self.build.lake, relation)
        if state is None:
            return "another build or a manual write changed it"
        identity = state.identity
        if identity.loader != node.name:
            return "something else than this loader wrote to it"
        previous_hash = before.known_identity.local_hash if before is not None else None
        if identity.local_hash not in (node.local_hash, previous_hash):
            return "another definition of this loader wrote to it"
        if not has_committed_result(node, self.build.lake, identity):
            return "another build ran this loader, and what it remembers of that is not known before it has ended"
        self._adopt_outcome(node, NodeOutcome(0, None, state))
        return None

    def _get_filled_relation(self, node: PythonNode) -> Relation:
        """The table that a loader fills, as the catalog spells it."""
        assert node.relation is not None
        return self.build.state.externals.get(node.fills, node.relation)

    def _build_run_record(self, node: PythonNode) -> dict[str, Any]:
        """What is recorded of a run: the versions of tables, and the runs of Python nodes, that it builds on."""
        last_runs = self.build.lake_state.observed.python
        runs = {
            name: self.settings.run_id if _has_run(self.build.state.done.get(name)) else last_runs[name].run_id
            for name in iter_python_above(node, self.project)
            if name in last_runs or _has_run(self.build.state.done.get(name))
        }
        last = last_runs[node.name].run_id if node.name in last_runs else ""
        versions = record_tables(node, self.project, self.build.state.copy_relations())
        tables = {key: version.to_json() for key, version in versions.items()}
        run_record = {"sources": tables, "runs": runs, "last_run": last}
        if node.type == "loader":
            run_record["after"] = read_loader_identity(node, self.build).run_id
        return run_record

    def _build_failed(self, planned: PlannedNode, error: BaseException) -> NodeDone:
        explanation = explain_error(error, None, self.build.workspace.root, self.build.engine)
        return NodeDone(planned, "failed", planned.run_type, planned.detail, error=explanation)

    def _find_skip(self, node: PythonNode, planned: PlannedNode) -> NodeDone | None:
        """What becomes of a node without being run, by what became of those above it."""
        above = [self.project.loaders.get(name, name) for name in node.after]
        ended = [self.build.state.done.get(name) for name in above]
        missed = self._has_missed_changes(node, planned)
        if not missed and above and all(done is not None and done.skip == "soft" for done in ended):
            names = ", ".join(above[:3]) + (" …" if len(above) > 3 else "")
            return NodeDone(planned, "skipped", "skip", f"upstream {names} skipped", skip="soft")
        ran = any(_has_run(self.build.state.done.get(name)) for name in iter_python_above(node, self.project))
        if missed or ran or not planned.pending:
            return None
        return NodeDone(planned, "skipped", "skip", _IDENTICAL)

    def _has_missed_changes(self, node: PythonNode, planned: PlannedNode) -> bool:
        """Whether there is something that a node has not seen, though all above it may have nothing to do now."""
        last, relations = self.build.lake_state.observed.python, self.build.state.copy_relations()
        if not planned.pending and record_tables(node, self.project, relations):
            return True  # it runs for a reason of its own, and there are rows for it
        last_run = last.get(node.name)
        if last_run is None:
            return False
        before = (n for n in iter_python_above(node, self.project) if n in last)
        return any(last_run.runs.get(name) != last[name].run_id for name in before) or bool(
            list_changed_tables(node, last_run, self.project, relations)
        )

    def _run_function(self, node: PythonNode, planned: PlannedNode) -> NodeDone:
        retries, delay = int(node.settings.get("retries", 0)), float(node.settings.get("retry_delay", 0.0))
        served, stop = self._build_services(node), self.settings.stop
        began = self._read_own_time()
        with run_with_retries(self.build_call(node), served, stop, self.log, retries, delay) as answer:
            done = self._build_done(node, planned, answer)
        return replace(done, seconds=self._read_own_time() - began - sum(served.waited_seconds))

    def _read_own_time(self) -> float:
        """The clock of this thread, which stops while it waits for others."""
        return time.monotonic() - self.build.clock.waited

    def build_call(self, node: PythonNode, extra: Mapping[str, Any] | None = None) -> Call:
        """What a child needs to know to run a node."""
        build, project = self.build, self.project
        live = build_live_names(project, build.lake_state.catalog, build.state.externals, build.lake_state.files)
        pinned = build_pinned_names(
            project, build.lake_state.catalog, build.state.externals, build.state.states.get, build.lake_state.files
        )
        existing = {
            name: target for name, target in self._list_dependencies(node).items() if self._has_relation(target)
        }
        return Call(
            name=node.name,
            type=node.type,
            root=build.workspace.root,
            module=node.module,
            function=node.function,
            run_id=self.settings.run_id,
            target=project.target,
            vars=project.variables,
            relations={name: live(meant) for name, meant in self._list_readable_names(node).items()},
            pinned={name: pinned(meant) for name, meant in existing.items()},
            options=node.settings,
            extra=extra or {},
            timeout=node.settings.get("timeout"),
        )

    def _list_readable_names(self, node: PythonNode) -> dict[str, str]:
        """Everything with rows that a node may name, by the names that it may use."""
        project = self.project
        readable: dict[str, str] = {name: name for name in (*project.nodes, *project.externals)}
        short: dict[str, list[str]] = {}
        for name in project.nodes:
            short.setdefault(name.rpartition(".")[2], []).append(name)
        readable |= {name: names[0] for name, names in short.items() if len(names) == 1 and name not in readable}
        if node.fills:
            readable[node.name] = node.fills
        return readable | self._list_dependencies(node)

    def _list_dependencies(self, node: PythonNode) -> dict[str, str]:
        """What a node depends on and has rows, by the names that it may use; a loader stands for what it fills."""
        project = self.project
        dependencies: dict[str, str] = {}
        for written, target in node.called.items():
            name = project.python[target].fills if target in project.python else target
            if name:
                dependencies |= dict.fromkeys((written, written.rpartition(":")[2], target, name), name)
        return dependencies

    def _has_relation(self, name: str) -> bool:
        node = self.project.nodes.get(name)
        if node is not None:
            return node.kind == "view" or self.build.state.states.get(node.relation) is not None
        source = self.project.sources.get(name)
        return name in self.build.state.externals or (source is not None and not source.is_table)

    def _build_services(self, node: PythonNode) -> NodeServices:
        return NodeServices(self.build, f"{node.type} {node.name}", node)

    def build_model_services(self, called: str, changes: Callable[[str], str]) -> NodeServices:
        """What answers a Python model."""
        return NodeServices(self.build, called, changes=changes)

    def build_materializer(self, node: Node) -> Callable[[NodeContext], NodeOutcome]:
        """How a model of the kind custom is built: by its own function."""
        materialization = node.materialization
        serve = NodeServices(
            self.build,
            f"the materialization {materialization['name']}",
            conf=build_unfinished_settings(self.settings.run_id),
        )
        return lambda context: build_custom(context, serve, self.settings.stop, self.log)

    def log(self, text: str) -> None:
        """Tell what a function printed."""
        self.build.listen(NodeSaid(text))

    # --- what became of it ------------------------------------------------------------------------------------------

    def _build_done(self, node: PythonNode, planned: PlannedNode, answer: Answer) -> NodeDone:
        done = NodeDone(
            planned, "ok", planned.run_type, planned.detail, payload=answer.payload, metadata=answer.metadata
        )
        if answer.status == "skipped":
            return replace(done, status="skipped", run_type="skip", detail=answer.reason, skip=answer.skip_mode)
        if answer.status == "failed":
            assert answer.error is not None
            if node.settings.get("severity") == "warn" and isinstance(answer.error, CheckFailed):
                self.build.listen(Notice(f"{node.name}: {answer.error.message}"))
                finding = answer.error.finding
                return replace(done, findings=(finding,) if finding is not None else ())
            return replace(done, status="failed", error=prefer_spark_loss(answer.error, self.build.engine))
        if node.type != "loader":
            return done
        outcome = self._load_rows(node, answer)
        if outcome is None:
            return replace(done, identical=True, detail="nothing new")
        self._adopt_outcome(node, outcome)
        for notice in outcome.notices:
            self.build.listen(Notice(f"{node.name}: {notice}"))
        return replace(done, rows=outcome.rows, snapshot_id=outcome.snapshot_id, identical=outcome.identical)

    def _load_rows(self, node: PythonNode, answer: Answer) -> NodeOutcome | None:
        """Write what a loader has returned; None when that was nothing."""
        if not answer.files and not answer.view:
            return None
        self.build.gate.hold(lambda: self.build.listen(NodeWaiting(node.name)))
        build, relation = self.build, self._get_filled_relation(node)
        load = Load(
            node=node.name,
            relation=relation,
            mode=node.kind,  # type: ignore[arg-type]
            key=tuple(node.settings.get("key") or ()),
            columns=node.settings.get("columns") or {},
            current=build.state.states.get(relation),
            run_id=self.settings.run_id,
            git=self.settings.git,
            local_hash=node.local_hash,
            lake=build.lake,
            result=answer.payload,
            stage_result=lambda: stage_result(node, build.lake, self.settings.run_id, answer.payload),
            small_rows=build.workspace.gate.small_rows,
            announce=self.settings.announce,
            catalog=build.lake_state.catalog,
            at=node.at,
        )
        if answer.view:
            session = build.engine.session()
            return load_frame(load, session, session.table(f"global_temp.{answer.view}"))
        return load_files(load, answer.files)

    def _adopt_outcome(self, node: PythonNode, outcome: NodeOutcome) -> None:
        """What the loader wrote is what the rest of this build reads."""
        if outcome.state is None or node.relation is None:
            return
        read_as = self.project.externals[node.fills].relation
        self.build.state.adopt_loaded(node.fills, node.relation, read_as, outcome.state)

    # --- hooks ------------------------------------------------------------------------------------------------------

    def run_hooks(self, kind: str, extra: Mapping[str, Any] | None = None) -> list[NodeDone]:
        """Run the hooks of one kind, one after the other."""
        results = []
        for node in sorted(self.project.python.values(), key=lambda n: n.name):
            if node.kind == kind and node.type == "hook":
                planned = decide_hook(node, self.build.lake_state.observed, runs=True)
                self.build.listen(NodeStarted(node.name, "hook"))
                results.append(self._run_hook(node, planned, extra or {}))
                self.build.listen(results[-1])
        return results

    def _run_hook(self, node: PythonNode, planned: PlannedNode, extra: Mapping[str, Any]) -> NodeDone:
        began = time.monotonic()
        # A build that was stopped still wakes those who wait for its end.
        try:
            call, served = self.build_call(node, extra), self._build_services(node)
            with run_with_retries(call, served, threading.Event(), self.log) as answer:
                done = self._build_done(node, planned, answer)
        except KeyboardInterrupt:
            # Hooks run in the thread that gets it: it is not a failure of the hook.
            raise
        except BaseException as error:
            done = self._build_failed(planned, error)
        return replace(done, seconds=time.monotonic() - began)


def _has_run(done: NodeDone | None) -> bool:
    return done is not None and done.status == "ok"
