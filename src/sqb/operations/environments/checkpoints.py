"""The checkpoints of virtual environments: listed, shown, compared. Reads only the store."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from sqb.environments.describe import NodeChange, compare_checkpoints, find_checkpoint, get_environment
from sqb.environments.model import Binding, Checkpoint
from sqb.environments.session import get_default_environment, open_workspace_store
from sqb.environments.state.store import Store
from sqb.operations.environments.state import Report, encode_binding, warn_if_foreign
from sqb.workspace import Workspace


@dataclass(frozen=True, slots=True)
class CheckpointOptions:
    """Which checkpoints: all of an environment, one by its id or number, or two to compare."""

    references: tuple[str, ...] = ()
    virtual_env: str | None = None


@dataclass(frozen=True, slots=True)
class CheckpointList:
    """Checkpoints, newest first; `current` has the one that each environment is at."""

    target: str
    checkpoints: tuple[Checkpoint, ...]
    current: Mapping[str, str]

    def to_data(self) -> dict[str, Any]:
        """What `sqb state checkpoints list --json` prints."""
        return {"target": self.target, "checkpoints": [_encode_checkpoint(c, self.current) for c in self.checkpoints]}


@dataclass(frozen=True, slots=True)
class CheckpointDetails:
    """One checkpoint, with what it holds."""

    target: str
    checkpoint: Checkpoint
    bindings: Mapping[str, Binding]
    current: Mapping[str, str]

    def to_data(self) -> dict[str, Any]:
        """What `sqb state checkpoints show --json` prints."""
        refs = self.checkpoint.refs
        return {
            "target": self.target,
            "checkpoint": _encode_checkpoint(self.checkpoint, self.current),
            "nodes": [encode_binding(self.bindings[refs[node]]) for node in sorted(refs)],
        }


@dataclass(frozen=True, slots=True)
class CheckpointComparison:
    """Two checkpoints, and the nodes that differ."""

    target: str
    before: Checkpoint
    after: Checkpoint
    changes: tuple[NodeChange, ...]
    current: Mapping[str, str]

    def to_data(self) -> dict[str, Any]:
        """What `sqb state checkpoints diff --json` prints."""
        return {
            "target": self.target,
            "before": _encode_checkpoint(self.before, self.current),
            "after": _encode_checkpoint(self.after, self.current),
            "nodes": [_encode_change(change) for change in self.changes],
        }


def read_checkpoints(
    workspace: Workspace, options: CheckpointOptions, warn: Report
) -> CheckpointList | CheckpointDetails | CheckpointComparison:
    """List checkpoints, show the one that is named, or compare the two that are."""
    with closing(open_workspace_store(workspace)) as store:
        warn_if_foreign(workspace, store, warn)
        match options.references:
            case ():
                return _list_checkpoints(workspace, store, options)
            case (reference,):
                return _show_checkpoint(workspace, store, reference, options)
            case (first, second):
                return _compare_checkpoints(workspace, store, (first, second), options)
            case _:
                raise ValueError("at most two checkpoints are compared")


def _list_checkpoints(workspace: Workspace, store: Store, options: CheckpointOptions) -> CheckpointList:
    with store.read_consistently():
        known, checkpoints = store.read_environments(), store.read_checkpoints(options.virtual_env)
    if options.virtual_env is not None:
        get_environment(options.virtual_env, known)
    current = {name: environment.checkpoint for name, environment in known.items()}
    return CheckpointList(workspace.project.target, tuple(checkpoints), current)


def _show_checkpoint(
    workspace: Workspace, store: Store, reference: str, options: CheckpointOptions
) -> CheckpointDetails:
    name = options.virtual_env or get_default_environment(workspace)
    with store.read_consistently():
        known = store.read_environments()
        checkpoint = find_checkpoint(reference, name, known, store.read_checkpoints())
        bindings = store.read_bindings(set(checkpoint.refs.values()))
    current = {name: environment.checkpoint for name, environment in known.items()}
    return CheckpointDetails(workspace.project.target, checkpoint, bindings, current)


def _compare_checkpoints(
    workspace: Workspace, store: Store, references: tuple[str, str], options: CheckpointOptions
) -> CheckpointComparison:
    name = options.virtual_env or get_default_environment(workspace)
    with store.read_consistently():
        known, checkpoints = store.read_environments(), store.read_checkpoints()
        before, after = (find_checkpoint(reference, name, known, checkpoints) for reference in references)
        bindings = store.read_bindings({*before.refs.values(), *after.refs.values()})
    changes = tuple(compare_checkpoints(before, after, bindings))
    current = {name: environment.checkpoint for name, environment in known.items()}
    return CheckpointComparison(workspace.project.target, before, after, changes, current)


def _encode_checkpoint(checkpoint: Checkpoint, current: Mapping[str, str]) -> dict[str, Any]:
    return {
        "id": checkpoint.id,
        "number": checkpoint.number,
        "environment": checkpoint.environment,
        "parent": checkpoint.parent or None,
        "created_at": checkpoint.created_at.isoformat(),
        "reason": checkpoint.reason,
        "detail": checkpoint.detail,
        "run_id": checkpoint.run_id,
        "git": checkpoint.git or None,
        "nodes": len(checkpoint.refs),
        "current": current.get(checkpoint.environment) == checkpoint.id,
    }


def _encode_change(change: NodeChange) -> dict[str, Any]:
    sides = {"before": change.before, "after": change.after}
    return {
        "name": change.name,
        "change": change.change,
        **{side: encode_binding(binding) if binding is not None else None for side, binding in sides.items()},
    }
