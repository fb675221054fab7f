"""What Python nodes remember: a task its last result, a loader what filled its table, whichever build that was.

A loader's result is part of the commit of its rows. One that is too long for that is written down first, and counts as
soon as the table has a commit of the same run: no kill comes between rows and memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqb.build.context import BuildContext
from sqb.compile.python.model import PythonNode
from sqb.lake.port import Lake, TableState
from sqb.lake.state.rows import NODE_RESULTS, STAGED, NodeResult
from sqb.plan.recorded.commit_identity import CommitIdentity

# The part of a run's id that is the time at which it began, to the second.
_RUN_TIME_LENGTH = len("20240131_235959")


def read_stored_result(node: PythonNode, build: BuildContext) -> Any:
    """What a node last returned. A loader remembers what filled its table, whichever target that was."""
    rows = _read_results(node, build.lake)
    done = (r for r in rows if r.status == "ok" and r.node_type == node.type and _has_result(r))
    own_results = [r for r in done if r.target_schema == node.schema or _is_same_table(r, node)]
    state = _get_filled_state(node, build)
    committed = _find_committed_result(state.known_identity, rows) if state is not None else ""
    if state is not None and committed:
        later = (r.payload for r in own_results if _is_later(r, state))
        return json.loads(next(later, committed) or "null")
    return json.loads(own_results[0].payload) if own_results and own_results[0].payload else None


def has_committed_result(node: PythonNode, lake: Lake, identity: CommitIdentity) -> bool:
    """Whether it is known what the run returned that made a commit."""
    return bool(identity.loader_result or _find_committed_result(identity, _read_results(node, lake)))


def stage_result(node: PythonNode, lake: Lake, run_id: str, payload: str) -> None:
    """Write down what a loader's run returned, before its rows are published."""
    metadata = json.dumps({"relation": str(node.relation)})
    now = datetime.now(UTC)
    lake.state.append_node_results(
        [NodeResult(node.type, node.name, node.schema, run_id, STAGED, payload, metadata, "", now)]
    )


def read_loader_identity(node: PythonNode, build: BuildContext) -> CommitIdentity:
    """What the last commit of a loader says of itself, in the table that it fills, as the build reads that."""
    state = _get_filled_state(node, build)
    return state.known_identity if state is not None else CommitIdentity()


def _read_results(node: PythonNode, lake: Lake) -> Sequence[NodeResult]:
    """The recorded runs of a node, newest first; those of a loader in all targets."""
    schemas = [node.schema]
    if node.relation is not None:
        schemas = sorted({r.schema for r in lake.list_pointers() if r.name == NODE_RESULTS.name} | {node.schema})
    return lake.state.read_node_results(schemas, node_name=node.name)


def _find_committed_result(identity: CommitIdentity, rows: Iterable[NodeResult]) -> str:
    """The result that belongs to the rows of a commit; "" where it is not known."""
    if identity.loader_result:
        return identity.loader_result
    of_run = (r.payload for r in rows if r.status == STAGED and r.run_id == identity.run_id)
    return next(of_run, "")


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
