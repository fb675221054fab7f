"""The runs of a target, as they were recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqb.errors.call import CallError
from sqb.lake.iceberg import IcebergLake
from sqb.workspace import Workspace


def read_runs(
    workspace: Workspace, lake: IcebergLake, run_id: str | None, node: str | None, limit: int
) -> dict[str, list[Any]]:
    """The results of nodes by their runs, newest first: of one run, or of one node, or all."""
    lake.list_pointers()  # a lake that was moved is said to be that, whatever is asked of it
    rows = lake.read_node_results(workspace.project.schemas)
    if node is not None:
        suffix = node.lower().rpartition(":")[2]
        rows = [r for r in rows if suffix in (r.node_name.lower(), r.node_name.lower().rpartition(".")[2])]
    order = {name: index for index, name in enumerate(workspace.project.order or workspace.project.nodes)}
    runs: dict[str, list[Any]] = {}
    for row in sorted(rows, key=lambda r: (order.get(r.node_name, len(order)), r.node_name)):
        runs.setdefault(row.run_id, []).append(row)
    if run_id is not None:
        matches = sorted(r for r in runs if r.startswith(run_id))
        if not matches:
            raise CallError(f'no run is called "{run_id}"', hint="`sqb history` lists the runs")
        if len(matches) > 1 and run_id not in matches:
            raise CallError(
                f'"{run_id}" is the beginning of {len(matches)} runs', hint=f"write more of it, such as {matches[-1]}"
            )
        runs = {matches[0]: runs[matches[0]]}
    # Names tell the second; of runs within one, times tell which was first.
    newest = sorted(runs, key=lambda r: (r.rpartition("_")[0], min(row.ts for row in runs[r]), r), reverse=True)
    return {r: runs[r] for r in newest[:limit]}


def encode_runs(target: str, runs: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Runs as `sqb history --json` prints them."""
    document = [
        {"run_id": r, "at": format_run_time(rows), "nodes": [encode_result(n) for n in rows]}
        for r, rows in runs.items()
    ]
    return {"target": target, "runs": document}


def format_run_time(rows: list[Any]) -> str:
    """When a run was, in UTC."""
    return str(min(r.ts for r in rows).strftime("%Y-%m-%d %H:%M:%S"))


def encode_result(row: Any) -> dict[str, Any]:
    """What became of a node in a run."""
    return {
        "name": row.node_name,
        "type": row.node_type,
        "status": row.status,
        **json.loads(row.metadata or "{}"),
        **({"payload": json.loads(row.payload)} if row.payload else {}),
        "error": row.error_message or None,
    }
