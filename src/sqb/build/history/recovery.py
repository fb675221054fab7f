"""What a killed build could not write down: found in the tables' own commits, and written by the next build.

A build that is killed leaves a trace, so that looking for its history costs nothing when there is none. What a run
published is in the commits of the tables; the definition is the project's, if it is still the one that was built.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime

from sqb.build.udfs import build_function_fingerprints
from sqb.compile.model import Node
from sqb.lake.port import Lake, Run, TableState
from sqb.lake.state.rows import Fingerprint, NodeResult
from sqb.light_dataclass import dataclass
from sqb.names import Relation
from sqb.workspace import Workspace


@dataclass(frozen=True, slots=True)
class UnrecordedRuns:
    """Runs that were killed, and what they had published without writing it down."""

    runs: tuple[str, ...] = ()
    nodes: tuple[tuple[Node, TableState], ...] = ()

    @property
    def text(self) -> str:
        """What is missing, in words; empty when nothing is."""
        if not self.nodes:
            return ""
        names = [node.name for node, _ in self.nodes]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        return f"{', '.join(names[:3])}{more}: built by a run that was killed before it wrote its history"


def get_owner(workspace: Workspace) -> str:
    """Whose runs those of a workspace are: only the same project and target can write their history again."""
    return f"{workspace.root} {workspace.project.target}"


def find_unrecorded(workspace: Workspace, lake: Lake, states: Mapping[Relation, TableState]) -> UnrecordedRuns:
    """What killed runs of this project and target have published and not written down."""
    dead = [r.id for r in lake.list_runs().values() if r.owner == get_owner(workspace) and _has_ended(r, workspace)]
    if not dead:
        return UnrecordedRuns()
    published = [
        (node, state)
        for node in workspace.project
        if (state := states.get(node.relation)) is not None and state.identity.run_id in dead
    ]
    rows = lake.state.read_fingerprints(sorted({n.relation.schema for n, _ in published})) if published else {}
    missing = []
    for node, state in published:
        row = rows.get((node.type, node.name, node.relation.schema))
        if state.identity.local_hash != node.local_hash:
            # The definition that was built is not known any more; the node runs, and its history goes on from there.
            continue
        if row is None or row.run_id != state.identity.run_id:
            missing.append((node, state))
    return UnrecordedRuns(tuple(dead), tuple(missing))


def _has_ended(run: Run, workspace: Workspace) -> bool:
    if run.settled or run.alive:
        return False
    return run.alive is False or run.started < time.time() - workspace.retention.stages


def repair_history(workspace: Workspace, lake: Lake, states: Mapping[Relation, TableState] | None = None) -> str:
    """Write the history that killed runs left out; what was written, in words."""
    if not lake.list_runs():
        return ""
    if states is None:
        pointers = lake.list_pointers()
        states = lake.read_tables(pointers[n.relation] for n in workspace.project if n.relation in pointers)
    missing = find_unrecorded(workspace, lake, states)
    if missing.nodes:
        functions = [
            row
            for node, state in missing.nodes
            for row in build_function_fingerprints(
                workspace.project, [node], state.identity.run_id, _read_publish_time(node, state, lake)
            )
        ]
        lake.state.append_fingerprints(
            [*(_build_fingerprint(node, state, lake) for node, state in missing.nodes), *functions]
        )
        lake.state.append_node_results([_build_result(node, state, lake) for node, state in missing.nodes])
    for run_id in missing.runs:
        lake.settle_run(run_id)
    return f"{missing.text}; it was written now" if missing.nodes else ""


def _build_fingerprint(node: Node, state: TableState, lake: Lake) -> Fingerprint:
    return Fingerprint(
        node_type=node.type,
        node_name=node.name,
        target_schema=node.relation.schema,
        target_name=node.relation.name,
        run_id=state.identity.run_id,
        local_hash=node.local_hash,
        version_hash=state.identity.version_hash,
        schema_hash=state.columns_token,
        definition=node.definition,
        metadata=_encode_metadata(node, state),
        ts=_read_publish_time(node, state, lake),
    )


def _build_result(node: Node, state: TableState, lake: Lake) -> NodeResult:
    return NodeResult(
        node_type=node.type,
        node_name=node.name,
        target_schema=node.relation.schema,
        run_id=state.identity.run_id,
        status="ok",
        payload="",
        metadata=_encode_metadata(node, state),
        error_message="",
        ts=_read_publish_time(node, state, lake),
    )


def _read_publish_time(node: Node, state: TableState, lake: Lake) -> datetime:
    """When the rows were published, so that a later run's row still counts as later."""
    committed_at = lake.read_commit_time(node.relation, state.snapshot_id) if state.snapshot_id is not None else None
    return committed_at or datetime.now(UTC)


def _encode_metadata(node: Node, state: TableState) -> str:
    return json.dumps(
        {
            "kind": node.kind,
            "relation": str(node.relation),
            "run_type": state.identity.run_type,
            "reason": "Recovered",
            "detail": "written again from the table's own commit",
            "rows": state.rows or 0,
            "seconds": state.identity.duration,
            "snapshot_id": state.snapshot_id,
            "identical": False,
        }
    )
