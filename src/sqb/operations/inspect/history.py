"""The runs of a target, as they were recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqb.errors.call import CallError
from sqb.lake.port import Lake
from sqb.lake.state.rows import STAGED
from sqb.operations.environment import open_read_only
from sqb.workspace import Workspace


@dataclass(frozen=True, slots=True)
class HistoryOptions:
    """Which runs: one by the beginning of its id, those of one node, or the newest."""

    run_id: str | None = None
    node: str | None = None
    limit: int = 20
    virtual_env: str | None = None


@dataclass(frozen=True, slots=True)
class History:
    """The results of nodes by their runs, newest first."""

    target: str
    runs: Mapping[str, Sequence[Any]]

    def to_data(self) -> dict[str, Any]:
        """What `sqb history --json` prints."""
        document = [
            {
                "run_id": r,
                "at": format_run_time(rows),
                "environment": read_environment(rows[0]),
                "nodes": [encode_result(n) for n in rows],
            }
            for r, rows in self.runs.items()
        ]
        return {"target": self.target, "runs": document}


def read_history(workspace: Workspace, options: HistoryOptions) -> History:
    """Read the runs of a target: one run, those of one node, or all."""
    opened, lake = open_read_only(workspace, options.virtual_env)
    rows = _read_rows(opened, lake, options.node)
    if options.virtual_env is not None:
        # Runs of before environments were recorded may be of any.
        rows = [row for row in rows if read_environment(row) in (options.virtual_env, None)]
    runs = _group_by_run(rows, opened)
    if options.run_id is not None:
        name = _find_run(options.run_id, runs)
        runs = {name: runs[name]}
    # Names tell the second; of runs within one, times tell which was first.
    newest = sorted(runs, key=lambda r: (r.rpartition("_")[0], min(row.ts for row in runs[r]), r), reverse=True)
    return History(opened.project.target, {r: runs[r] for r in newest[: options.limit]})


def _read_rows(workspace: Workspace, lake: Lake, node: str | None) -> Sequence[Any]:
    lake.list_pointers()  # a lake that was moved is said to be that, whatever is asked of it
    rows = [r for r in lake.state.read_node_results(workspace.project.schemas) if r.status != STAGED]
    if node is None:
        return rows
    suffix = node.lower().rpartition(":")[2]
    return [r for r in rows if suffix in (r.node_name.lower(), r.node_name.lower().rpartition(".")[2])]


def _group_by_run(rows: Sequence[Any], workspace: Workspace) -> dict[str, list[Any]]:
    """The rows by run, each run in the order of the project."""
    order = {name: index for index, name in enumerate(workspace.project.order or workspace.project.nodes)}
    runs: dict[str, list[Any]] = {}
    for row in sorted(rows, key=lambda r: (order.get(r.node_name, len(order)), r.node_name)):
        runs.setdefault(row.run_id, []).append(row)
    return runs


def _find_run(run_id: str, runs: Mapping[str, Sequence[Any]]) -> str:
    """The run whose id begins so."""
    matches = sorted(r for r in runs if r.startswith(run_id))
    if not matches:
        raise CallError(f'no run is called "{run_id}"', hint="`sqb history` lists the runs")
    if len(matches) > 1 and run_id not in matches:
        raise CallError(
            f'"{run_id}" is the beginning of {len(matches)} runs', hint=f"write more of it, such as {matches[-1]}"
        )
    return matches[0]


def read_environment(row: Any) -> str | None:
    """The virtual environment that a row's run was for; None in a project without any, or where it is not recorded."""
    environment = json.loads(row.metadata or "{}").get("environment")
    return str(environment) if environment else None


def format_run_time(rows: Sequence[Any]) -> str:
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
