"""Virtual environments as the document has them: what each shows, its checkpoints, and how two of them differ."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from itertools import combinations
from typing import Any

from sqb.environments.describe import EnvironmentSummary, list_summaries
from sqb.environments.diff import Difference, find_differences
from sqb.environments.model import Binding, Checkpoint, Ref
from sqb.environments.session import open_workspace_store
from sqb.workspace import Workspace

# Of more environments only those are compared that one begins as another.
_MOST_COMPARED = 8
_CHECKPOINTS = 100


def describe_environments(workspace: Workspace) -> dict[str, Any]:
    """All environments of the target, what they show, their checkpoints, and how they differ."""
    with closing(open_workspace_store(workspace)) as store:
        summaries = list_summaries(store)
        refs = {s.environment.name: store.read_refs(s.environment.name) for s in summaries}
        checkpoints = store.read_checkpoints()
        versions = store.read_versions() if len(summaries) > 1 else {}
    current = {s.environment.checkpoint for s in summaries}
    baselines = {s.environment.name: s.environment.baseline for s in summaries}
    # What a branch changed first: each against what it began as.
    begun = [(baseline, name) for name, baseline in baselines.items() if baseline in refs and baseline != name]
    others = [pair for pair in combinations(refs, 2) if pair not in begun and pair[::-1] not in begun]
    pairs = [*begun, *(others if len(refs) <= _MOST_COMPARED else ())]
    newest = sorted(checkpoints, key=lambda c: c.created_at, reverse=True)[:_CHECKPOINTS]
    return {
        "environments": [_describe_environment(s, refs[s.environment.name]) for s in summaries],
        "checkpoints": [_describe_checkpoint(c, c.id in current) for c in newest],
        "differences": [
            {
                "from": b,
                "to": a,
                "is_baseline": (a, b) in begun,
                "nodes": [_describe_difference(d) for d in find_differences(refs[a], refs[b], versions)],
            }
            for a, b in pairs
        ],
    }


def map_bindings(environments: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """What each environment shows of each node, by the names of nodes."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for environment in environments["environments"]:
        for shown in environment["shows"]:
            by_name.setdefault(shown["name"], []).append({"environment": environment["name"], **shown})
    return by_name


def _describe_environment(summary: EnvironmentSummary, refs: Mapping[str, Ref]) -> dict[str, Any]:
    environment, at = summary.environment, summary.checkpoint
    return {
        "name": environment.name,
        "status": environment.status.label,
        "baseline": environment.baseline or None,
        "created_at": environment.created_at.timestamp(),
        "updated_at": environment.updated_at.timestamp(),
        "run": environment.run_id or None,
        "checkpoint": at.number if at is not None else None,
        "unfinished": summary.unfinished,
        "shows": [_describe_binding(ref.binding) for ref in refs.values()],
    }


def _describe_binding(binding: Binding) -> dict[str, Any]:
    return {
        "name": binding.name,
        "type": binding.type,
        "version": binding.version_hash[:12],
        "relation": str(binding.relation) if binding.relation is not None else None,
        "snapshot": str(binding.snapshot_id) if binding.snapshot_id is not None else None,
    }


def _describe_checkpoint(checkpoint: Checkpoint, is_current: bool) -> dict[str, Any]:
    return {
        "environment": checkpoint.environment,
        "number": checkpoint.number,
        "at": checkpoint.created_at.timestamp(),
        "reason": checkpoint.reason,
        "detail": checkpoint.detail,
        "promoted_from": checkpoint.promoted_from or None,
        "run": checkpoint.run_id or None,
        "git": checkpoint.git or None,
        "nodes": len(checkpoint.refs),
        "current": is_current,
    }


def _describe_difference(difference: Difference) -> dict[str, Any]:
    return {
        "name": difference.name,
        "change": difference.change,
        "reason": str(difference.reason) if difference.reason is not None else None,
        "through": list(difference.through),
        "before": difference.before.version_hash[:12] if difference.before is not None else None,
        "now": difference.now.version_hash[:12] if difference.now is not None else None,
        "columns": [change.to_data() for change in difference.columns],
    }
