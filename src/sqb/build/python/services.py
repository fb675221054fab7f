"""What a running Python node may ask of its build: Spark, and what nodes have returned."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqb.build.context import BuildContext
from sqb.build.events import NodeDone
from sqb.compile.python.model import PythonNode
from sqb.errors.build import BuildError
from sqb.lake.port import TableState
from sqb.lake.state.rows import NODE_RESULTS, NodeResult
from sqb.names import suggest_nearest
from sqb.plan.recorded.commit_identity import CommitIdentity

# The part of a run's id that is the time at which it began, to the second.
_RUN_TIME_LENGTH = len("20240131_235959")


@dataclass(frozen=True, slots=True)
class NodeServices:
    """Answers the questions of one node, or of a Python model."""

    build: BuildContext
    called: str
    node: PythonNode | None = None
    # Of a model: the name of a view that has the changes of a table.
    changes: Callable[[str], str] | None = None
    # What is set in the sessions that it uses.
    conf: Mapping[str, str] = field(default_factory=dict)
    # Those sessions, until it has ended.
    lent: list[Any] = field(default_factory=list)
    # How long it waited for Spark, in seconds.
    waited_seconds: list[float] = field(default_factory=list)

    def __call__(self, request: str, arguments: Mapping[str, Any]) -> Any:
        match request:
            case "spark":
                return self._lend_session()
            case "ended":
                while self.lent:
                    self.lent.pop().end(str(arguments["view"]))
                return None
            case "loss":
                return self.build.engine.loss() if self.build.engine.gone else None
            case "result_of":
                return self._read_result(str(arguments["name"]))
            case "last_result":
                return self._read_stored_result(self.node) if self.node is not None else None
            case "changes" if self.changes is not None:
                return self.changes(str(arguments["name"]))
            case _:
                # Errors get the place of the call in the function's file, which the child knows.
                raise BuildError(f"{self.called} cannot use ctx.{request}", hint="that is for models of python/models/")

    def _lend_session(self) -> dict[str, Any]:
        """A session of the build's Spark, which is started for it if need be."""
        requested_at = time.monotonic()
        session = self.build.engine.session()
        # Waiting for Spark to start does not count as the node's run time.
        self.waited_seconds.append(time.monotonic() - requested_at)
        from sqb.spark.sharing.parent import share_session  # a session is there, and pyspark with it

        self.lent.append(share_session(session, self.conf))
        address: dict[str, Any] = self.lent[-1].address()
        return address

    def _read_result(self, name: str) -> Any:
        """What a node returned in this build; else what it returned when it last ran."""
        node_name = name.rpartition(":")[2]
        python = self.build.project.python
        node = python.get(node_name)
        if node is None or node.type == "hook":
            raise BuildError(
                f'result_of("{name}"): no Python node is called so',
                hint=suggest_nearest(node_name, python) or "it takes the name of a loader, task, asset or check",
            )
        done = self.build.state.done.get(node.name)
        if done is not None and done.status == "ok":
            return _decode_payload(done)
        return self._read_stored_result(node)

    def _read_stored_result(self, node: PythonNode) -> Any:
        """What a node last returned. A loader remembers what filled its table, whichever target that was."""
        lake, schemas = self.build.lake, [node.schema]
        if node.relation is not None:
            schemas = sorted({r.schema for r in lake.list_pointers() if r.name == NODE_RESULTS.name} | {node.schema})
        rows = lake.state.read_node_results(schemas, node_name=node.name)
        done = (r for r in rows if r.status == "ok" and r.node_type == node.type and _has_result(r))
        own_results = [r for r in done if r.target_schema == node.schema or _is_same_table(r, node)]
        state = _get_filled_state(node, self.build)
        if state is not None and state.known_identity.loader_result:
            later = (r.payload for r in own_results if _is_later(r, state))
            return json.loads(next(later, state.known_identity.loader_result) or "null")
        return json.loads(own_results[0].payload) if own_results and own_results[0].payload else None


def read_loader_identity(node: PythonNode, build: BuildContext) -> CommitIdentity:
    """What the last commit of a loader says of itself, in the table that it fills, as the build reads that."""
    state = _get_filled_state(node, build)
    return state.known_identity if state is not None else CommitIdentity()


def _get_filled_state(node: PythonNode, build: BuildContext) -> TableState | None:
    """The table that a loader fills, if the last commit of sqb is the loader's."""
    if node.type != "loader" or node.relation is None:
        return None
    state = build.state.states.get(build.state.externals.get(node.fills, node.relation))
    return state if state is not None and state.known_identity.loader == node.name else None


def _is_later(row: NodeResult, state: TableState) -> bool:
    """Whether a recorded run came after the one that filled the table, and moved on without loading rows.

    What a run recorded that loaded rows is in its commit: if that is not the table's last, another run has loaded since
    and was killed, or the table was rolled back. A run says after which one it came: one that ended later may have
    begun earlier, and not have seen the rows.
    """
    metadata = _parse_metadata(row)
    if metadata.get("identical") is not True:
        return False
    table_run_id = state.known_identity.run_id
    if "after" in metadata:
        return bool(metadata["after"] == table_run_id)
    if row.run_id[:_RUN_TIME_LENGTH] != table_run_id[:_RUN_TIME_LENGTH]:
        return row.run_id > table_run_id
    return state.made_ms is None or row.ts.timestamp() * 1000 >= state.made_ms


def _has_result(row: NodeResult) -> bool:
    """Whether a run returned something, or loaded rows; one that found nothing new leaves what was known before it."""
    return bool(row.payload) or '"identical": true' not in row.metadata


def _is_same_table(row: NodeResult, node: PythonNode) -> bool:
    """Whether a run in another target filled the table that this loader fills."""
    return bool(_parse_metadata(row).get("relation") == str(node.relation))


def _parse_metadata(row: NodeResult) -> Mapping[str, Any]:
    try:
        metadata = json.loads(row.metadata)
    except ValueError:
        return {}
    return metadata if isinstance(metadata, dict) else {}


def _decode_payload(done: NodeDone) -> Any:
    return json.loads(done.payload) if done.payload else None
