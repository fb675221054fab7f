"""Runs as they were recorded: what ran when and where, what waited for what, and what was saved."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqb.lake.state.rows import NodeResult

# Only these are more than a look at checks or at nothing: their seconds say what a rebuild would take.
_WHOLE = ("full", "backfill")
# Nodes are handed out as soon as they can run: in less than this, a busy machine does it too.
_AT_ONCE = 0.25
_KEYS = ("kind", "run_type", "reason", "detail", "rows", "seconds", "expected_seconds", "snapshot_id", "identical")


def describe_runs(
    rows: Sequence[NodeResult], upstream: Mapping[str, Sequence[str]], limit: int
) -> list[dict[str, Any]]:
    """The newest runs, each with its nodes in the order in which they began."""
    grouped: dict[str, list[NodeResult]] = {}
    for row in rows:
        grouped.setdefault(row.run_id, []).append(row)
    # Names tell the second; of runs within one, times tell which was first.
    oldest_first = sorted(grouped, key=lambda r: (r.rpartition("_")[0], min(n.ts for n in grouped[r]), r))
    whole: dict[str, float] = {}
    runs = []
    for run_id in oldest_first:
        run = _describe_run(run_id, grouped[run_id], upstream)
        _add_savings(run, whole)
        runs.append(run)
    return list(reversed(runs))[:limit]


def _describe_run(run_id: str, rows: Iterable[NodeResult], upstream: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    decoded = [(row, json.loads(row.metadata or "{}")) for row in rows]
    nodes = [_describe_node(row, metadata) for row, metadata in decoded]
    nodes.sort(key=lambda n: (n["began"] or 0.0, n["name"]))
    record: dict[str, Any] = next((m["run"] for _, m in decoded if isinstance(m.get("run"), dict)), {})
    ended_at = max(row.ts for row, _ in decoded).timestamp()
    began = record.get("began") or min((n["began"] for n in nodes if n["began"]), default=None)
    ended = max((n["ended"] for n in nodes if n["ended"]), default=None)
    spark = record.get("spark")
    _add_waits(nodes, upstream, spark, began or 0.0)
    statuses = [n["status"] for n in nodes]
    return {
        "id": run_id,
        "at": began or ended_at,
        "began": began,
        "ended": ended,
        "status": _judge_run(statuses, record),
        "environment": next((m["environment"] for _, m in decoded if m.get("environment")), None),
        "seconds": round(ended - began, 3) if began and ended else None,
        "work_seconds": round(sum(n["seconds"] or 0.0 for n in nodes), 3),
        "spark": spark,
        "spark_critical": _mark_critical_path(nodes),
        "planned": record.get("nodes"),
        "ran": statuses.count("ok"),
        "failed": statuses.count("failed"),
        "skipped": record.get("skipped"),
        "rows": sum(n["rows"] or 0 for n in nodes),
        "nodes": nodes,
    }


def _judge_run(statuses: Sequence[str], record: Mapping[str, Any]) -> str:
    """How a run ended; it is unfinished where nodes of its plan were neither run nor skipped, as after Ctrl-C."""
    if "failed" in statuses:
        return "failed"
    planned = record.get("nodes")
    return "unfinished" if planned and len(statuses) + record.get("skipped", 0) < planned else "ok"


def _describe_node(row: NodeResult, metadata: Mapping[str, Any]) -> dict[str, Any]:
    span = metadata.get("span") or {}
    return {
        "name": row.node_name,
        "type": row.node_type,
        "status": row.status,
        **{key: metadata.get(key) for key in _KEYS},
        "began": span.get("began"),
        "ended": span.get("ended"),
        "worker": span.get("worker"),
        "failures": metadata.get("failures") or [],
        "error": row.error_message or None,
        "ready": None,
        "wait": None,
        "waited_for": None,
        "critical": False,
    }


def _add_waits(
    nodes: Sequence[dict[str, Any]], upstream: Mapping[str, Sequence[str]], spark: Sequence[float] | None, began: float
) -> None:
    """Say of each node what it waited for: Spark, an input, or a place beside those that ran."""
    timed = {n["name"]: n for n in nodes if n["began"] and n["ended"]}
    for node in timed.values():
        above = [timed[name] for name in upstream.get(node["name"], ()) if name in timed]
        latest = max(above, key=lambda n: n["ended"], default=None)
        # It was handed out when there was a place for it; from when its inputs were there, it waited for that.
        node["ready"] = min(latest["ended"] if latest is not None else began, node["began"])
        left = [n for n in timed.values() if node["ready"] < n["ended"] <= node["began"] + _AT_ONCE and n is not node]
        if spark is not None and node["began"] < spark[1] < node["ended"]:
            node["wait"], node["waited_for"] = "spark", "Spark"
        elif node["began"] - node["ready"] > _AT_ONCE and left:
            node["wait"], node["waited_for"] = "place", max(left, key=lambda n: n["ended"])["name"]
        elif latest is not None:
            node["wait"], node["waited_for"] = "input", latest["name"]


def _mark_critical_path(nodes: Sequence[dict[str, Any]]) -> bool:
    """Mark the way to the last end, back along what each waited for; whether it begins with Spark's start."""
    timed = {n["name"]: n for n in nodes if n["began"] and n["ended"]}
    last = max(timed.values(), key=lambda n: n["ended"], default=None)
    while last is not None and not last["critical"]:
        last["critical"] = True
        if last["wait"] == "spark":
            return True
        last = timed.get(last["waited_for"] or "")
    return False


def _add_savings(run: dict[str, Any], whole: dict[str, float]) -> None:
    """Add what all nodes would have taken, by the last time that each was rebuilt, as far as that is known."""
    for node in run["nodes"]:
        if node["status"] == "ok" and node["seconds"] and (node["run_type"] in _WHOLE or node["name"] not in whole):
            whole[node["name"]] = node["seconds"]
    run["rebuild_seconds"] = round(sum(whole.values()), 3) if whole else None


def map_runs_of_nodes(runs: Sequence[Mapping[str, Any]], limit: int) -> dict[str, list[dict[str, Any]]]:
    """The last runs of each node, newest first."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        for node in run["nodes"]:
            listed = by_name.setdefault(node["name"], [])
            if len(listed) < limit:
                listed.append({"run": run["id"], "at": run["at"], "environment": run["environment"], **node})
    return by_name
