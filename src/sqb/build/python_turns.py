"""The turns of Python nodes: whether there is something for them to do, the run in a child, and what they leave."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqb.build.events import NodeDone, NodeSaid, NodeStarted, Notice
from sqb.build.failures import explained, or_loss
from sqb.build.kinds.custom import build_custom, unfinished
from sqb.build.loading import Load, load_files, load_frame
from sqb.build.observe import standing_of
from sqb.build.python_child import Answer, Call, with_retries
from sqb.build.python_services import Services
from sqb.build.render import live_names, pinned_names
from sqb.build.turn import Outcome, Turn
from sqb.compiled import Node
from sqb.compiled_python import PythonNode
from sqb.errors import CheckFailed, Interrupted
from sqb.names import Relation
from sqb.plan.observed import Standing
from sqb.plan.python_nodes import changed_tables, decide_hook, python_above, recorded_tables
from sqb.plan.values import PlannedNode

if TYPE_CHECKING:
    from sqb.build.run import Build

_SAME = "upstream output identical"


class PythonTurns:
    """Runs the Python nodes of one build."""

    def __init__(self, build: Build) -> None:
        self.build = build
        self.project, self.settings = build.project, build.settings

    def take(self, planned: PlannedNode) -> NodeDone:
        """Give a Python node its turn; whatever it does is an outcome, and never an exception."""
        node = self.project.python[planned.name]
        if (skipped := self._skipped(node, planned)) is not None:
            return skipped
        self.build.listen(NodeStarted(node.name, node.type))
        began = time.monotonic()
        said = self._said(node)
        try:
            done = self._run(node, planned)
        except BaseException as error:
            done = self._failed(planned, error)
        done = replace(done, seconds=done.seconds or time.monotonic() - began, said=said)
        if done.status == "blocked" or self.settings.stop.is_set():
            detail, stopped = "the build was interrupted", Interrupted("interrupted")
            return replace(done, status="blocked", run_type="skip", detail=detail, error=stopped)
        return done

    def _said(self, node: PythonNode) -> dict[str, Any]:
        """What is recorded of a run: the versions of tables, and the runs of Python nodes, that it builds on."""
        seen = self.build.look.observed.python
        runs = {
            name: self.settings.run_id if _has_run(self.build.done.get(name)) else seen[name].run_id
            for name in python_above(node, self.project)
            if name in seen or _has_run(self.build.done.get(name))
        }
        last = seen[node.name].run_id if node.name in seen else ""
        return {"sources": recorded_tables(node, self.project, self._relations()), "runs": runs, "last_run": last}

    def _failed(self, planned: PlannedNode, error: BaseException) -> NodeDone:
        known = explained(error, None, self.build.workspace.root, self.build.engine)
        return NodeDone(planned, "failed", planned.run_type, planned.detail, error=known)

    def _skipped(self, node: PythonNode, planned: PlannedNode) -> NodeDone | None:
        """What becomes of a node without being run, by what became of those above it."""
        above = [self.project.loaders.get(name, name) for name in node.after]
        ended = [self.build.done.get(name) for name in above]
        missed = self._missed(node, planned)
        if not missed and above and all(done is not None and done.skip == "soft" for done in ended):
            names = ", ".join(above[:3]) + (" …" if len(above) > 3 else "")
            return NodeDone(planned, "skipped", "skip", f"upstream {names} skipped", skip="soft")
        ran = any(_has_run(self.build.done.get(name)) for name in python_above(node, self.project))
        if missed or ran or not planned.pending:
            return None
        return NodeDone(planned, "skipped", "skip", _SAME)

    def _missed(self, node: PythonNode, planned: PlannedNode) -> bool:
        """Whether there is something that a node has not seen, though all above it may have nothing to do now."""
        last, relations = self.build.look.observed.python, self._relations()
        if not planned.pending and recorded_tables(node, self.project, relations):
            return True  # it runs for a reason of its own, and there are rows for it
        seen = last.get(node.name)
        if seen is None:
            return False
        before = (n for n in python_above(node, self.project) if n in last)
        return any(seen.runs.get(name) != last[name].run_id for name in before) or bool(
            changed_tables(node, seen, self.project, relations)
        )

    def _run(self, node: PythonNode, planned: PlannedNode) -> NodeDone:
        retries, delay = int(node.settings.get("retries", 0)), float(node.settings.get("retry_delay", 0.0))
        served, stop = self._served(node), self.settings.stop
        began = time.monotonic()
        with with_retries(self.call(node), served, stop, self.log, retries, delay) as answer:
            done = self._ended(node, planned, answer)
        return replace(done, seconds=time.monotonic() - began - sum(served.waited))

    def call(self, node: PythonNode, extra: Mapping[str, Any] | None = None) -> Call:
        """What a child needs to know to run a node."""
        build, project = self.build, self.project
        live = live_names(project, build.look.catalog, build.externals, build.look.files)
        pinned = pinned_names(project, build.look.catalog, build.externals, build.states.get, build.look.files)
        there = {name: meant for name, meant in self._depended_on(node).items() if self._is_there(meant)}
        return Call(
            name=node.name,
            type=node.type,
            root=build.workspace.root,
            module=node.module,
            function=node.function,
            run_id=self.settings.run_id,
            target=project.target,
            vars=project.variables,
            relations={name: live(meant) for name, meant in self._named(node).items()},
            pinned={name: pinned(meant) for name, meant in there.items()},
            options=node.settings,
            extra=extra or {},
            timeout=node.settings.get("timeout"),
        )

    def _named(self, node: PythonNode) -> dict[str, str]:
        """Everything with rows that a node may name, by the names that it may use."""
        project = self.project
        found: dict[str, str] = {name: name for name in (*project.nodes, *project.externals)}
        short: dict[str, list[str]] = {}
        for name in project.nodes:
            short.setdefault(name.rpartition(".")[2], []).append(name)
        found |= {name: names[0] for name, names in short.items() if len(names) == 1 and name not in found}
        if node.fills:
            found[node.name] = node.fills
        return found | self._depended_on(node)

    def _depended_on(self, node: PythonNode) -> dict[str, str]:
        """What a node depends on and has rows, by the names that it may use; a loader stands for what it fills."""
        project = self.project
        found: dict[str, str] = {}
        for written, meant in node.called.items():
            name = project.python[meant].fills if meant in project.python else meant
            if name:
                found |= dict.fromkeys((written, written.rpartition(":")[2], meant, name), name)
        return found

    def _is_there(self, name: str) -> bool:
        node = self.project.nodes.get(name)
        if node is not None:
            return node.kind == "view" or self.build.states.get(node.relation) is not None
        source = self.project.sources.get(name)
        return name in self.build.externals or (source is not None and not source.is_table)

    def _served(self, node: PythonNode) -> Services:
        return Services(self.build, f"{node.type} {node.name}", node)

    def services(self, called: str, changes: Callable[[str], str]) -> Services:
        """What answers a Python model."""
        return Services(self.build, called, changes=changes)

    def materializing(self, node: Node) -> Callable[[Turn], Outcome]:
        """How a model of the kind custom is built: by its own function."""
        said = node.materialization
        serve = Services(self.build, f"the materialization {said['name']}", conf=unfinished(self.settings.run_id))
        return lambda turn: build_custom(turn, serve, self.settings.stop, self.log)

    def log(self, text: str) -> None:
        """Tell what a function printed."""
        self.build.listen(NodeSaid(text))

    # --- what became of it ------------------------------------------------------------------------------------------

    def _ended(self, node: PythonNode, planned: PlannedNode, answer: Answer) -> NodeDone:
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
            return replace(done, status="failed", error=or_loss(answer.error, self.build.engine))
        if node.type != "loader":
            return done
        outcome = self._loaded(node, answer)
        if outcome is None:
            return replace(done, identical=True, detail="nothing new")
        self._take_over(node, outcome)
        for notice in outcome.notices:
            self.build.listen(Notice(f"{node.name}: {notice}"))
        return replace(done, rows=outcome.rows, snapshot_id=outcome.snapshot_id, identical=outcome.identical)

    def _loaded(self, node: PythonNode, answer: Answer) -> Outcome | None:
        """Write what a loader has returned; None when that was nothing."""
        if not answer.files and not answer.view:
            return None
        assert node.relation is not None
        build = self.build
        relation = build.externals.get(node.fills, node.relation)
        load = Load(
            node=node.name,
            relation=relation,
            mode=node.kind,  # type: ignore[arg-type]
            key=tuple(node.settings.get("key") or ()),
            columns=node.settings.get("columns") or {},
            standing=build.states.get(relation),
            run_id=self.settings.run_id,
            git=self.settings.git,
            local_hash=node.local_hash,
            lake=build.lake,
            announce=self.settings.announce,
            catalog=build.look.catalog,
            at=node.at,
        )
        if answer.view:
            session = build.engine.session()
            return load_frame(load, session, session.table(f"global_temp.{answer.view}"))
        return load_files(load, answer.files)

    def _take_over(self, node: PythonNode, outcome: Outcome) -> None:
        """What the loader wrote is what the rest of this build reads."""
        if outcome.state is None or node.relation is None:
            return
        build = self.build
        with build.lock:
            relation = build.externals.setdefault(node.fills, node.relation)
            standing = standing_of(outcome.state)
            build.states[relation] = outcome.state
            build.relations[relation] = standing
            build.relations[self.project.externals[node.fills].relation] = standing

    def _relations(self) -> dict[Relation, Standing]:
        with self.build.lock:
            return dict(self.build.relations)

    # --- hooks ------------------------------------------------------------------------------------------------------

    def hooks(self, kind: str, extra: Mapping[str, Any] | None = None) -> list[NodeDone]:
        """Run the hooks of one kind, one after the other."""
        found = []
        for node in sorted(self.project.python.values(), key=lambda n: n.name):
            if node.kind == kind and node.type == "hook":
                planned = decide_hook(node, self.build.look.observed, runs=True)
                self.build.listen(NodeStarted(node.name, "hook"))
                found.append(self._hook(node, planned, extra or {}))
                self.build.listen(found[-1])
        return found

    def _hook(self, node: PythonNode, planned: PlannedNode, extra: Mapping[str, Any]) -> NodeDone:
        began = time.monotonic()
        # A build that was stopped still tells so to those who wait for its end.
        try:
            call, served = self.call(node, extra), self._served(node)
            with with_retries(call, served, threading.Event(), self.log) as answer:
                done = self._ended(node, planned, answer)
        except KeyboardInterrupt:
            # Hooks run in the thread that gets it: it is no failure of theirs.
            raise
        except BaseException as error:
            done = self._failed(planned, error)
        return replace(done, seconds=time.monotonic() - began)


def _has_run(done: NodeDone | None) -> bool:
    return done is not None and done.status == "ok"
