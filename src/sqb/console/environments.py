"""Environments, their refs and checkpoints as lines of text, and as JSON values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqb.console.lines import columns_of_text
from sqb.names import human_age

_SHOWN = 8
_CHANGES = {
    "version": "another version",
    "data": "other rows",
    "view": "another view",
    "added": "added",
    "removed": "removed",
}


def overview_lines(overviews: Sequence[Any]) -> Iterator[str]:
    """All environments, one line each."""
    if not overviews:
        yield "No virtual environments yet: a build makes the first."
        return
    header = ("environment", "status", "nodes", "baseline", "last build", "checkpoint", "locked by")
    rows = []
    for one in overviews:
        about = one.environment
        status = f"{about.status} (unfinished)" if one.unfinished else str(about.status)
        at = one.checkpoint.number if one.checkpoint is not None else ""
        lock = f"{one.lock.owner}, for {_age(one.lock.since)}" if one.lock is not None else ""
        rows.append((about.name, status, one.nodes, about.baseline, f"{_age(about.updated_at)} ago", at, lock))
    yield from columns_of_text(header, rows)
    if any(one.unfinished for one in overviews):
        yield "(unfinished: a command ended in the middle of moving it; the next one that moves it finishes that)"


def environment_lines(overview: Any, refs: Mapping[str, Any], missing: Sequence[str] = ()) -> Iterator[str]:
    """One environment with what it shows."""
    about = overview.environment
    yield f"{about.name}: {about.status}"
    facts = {
        "baseline": about.baseline,
        "made": f"{_age(about.created_at)} ago{f' by {about.created_by}' if about.created_by else ''}",
        "last build": f"{_age(about.updated_at)} ago{f' ({about.run_id})' if about.run_id else ''}",
        "checkpoint": _told(overview.checkpoint) if overview.checkpoint is not None else "none",
        "lives for": f"{human_age(about.ttl)} after its last build" if about.ttl is not None else "",
        "locked by": f"{overview.lock.owner}, for {_age(overview.lock.since)}" if overview.lock is not None else "",
        "missing": f"the views of {', '.join(missing)}; the next build puts them back" if missing else "",
        "unfinished": "a command ended in the middle of moving it" if overview.unfinished else "",
    }
    yield from (f"  {name:<10}  {fact}" for name, fact in facts.items() if fact)
    yield ""
    yield from binding_lines(ref.binding for ref in refs.values())


def binding_lines(bindings: Iterable[Any]) -> Iterator[str]:
    """What is shown of models and seeds, and the versions of functions."""
    found = sorted(bindings, key=lambda b: b.name)
    tables = [b for b in found if b.relation is not None]
    functions = [b for b in found if b.relation is None]
    rows = [(b.name, b.version_hash[:_SHOWN], b.relation, b.snapshot_id or "") for b in tables]
    yield from columns_of_text(("node", "version", "physical relation", "snapshot"), rows)
    if functions:
        yield ""
        yield from columns_of_text(("function", "version"), [(b.name, b.version_hash[:_SHOWN]) for b in functions])


def checkpoint_lines(checkpoints: Sequence[Any], current: Mapping[str, str]) -> Iterator[str]:
    """Checkpoints, one line each; `current` are the ones that environments are at."""
    if not checkpoints:
        yield "No checkpoints yet: a build that finalizes an environment makes one, and so does a promotion."
        return
    header = ("environment", "number", "checkpoint", "made", "by", "nodes", "run", "")
    rows = []
    for c in checkpoints:
        here = "← here" if current.get(c.environment) == c.id else ""
        made = (f"{_age(c.created_at)} ago", c.detail or c.reason)
        rows.append((c.environment, c.number, c.id, *made, len(c.refs), c.run_id, here))
    yield from columns_of_text(header, rows)


def one_checkpoint_lines(checkpoint: Any, bindings: Iterable[Any]) -> Iterator[str]:
    """One checkpoint with everything that its environment showed."""
    yield f"{_told(checkpoint)} of {checkpoint.environment}: {checkpoint.id}"
    facts = {"run": checkpoint.run_id, "git": checkpoint.git, "before it": checkpoint.parent}
    yield from (f"  {name:<10}  {fact}" for name, fact in facts.items() if fact)
    yield ""
    yield from binding_lines(bindings)


def change_lines(before: Any, after: Any, changes: Sequence[Any]) -> Iterator[str]:
    """The nodes that differ between two checkpoints."""
    yield f"{_told(before)} of {before.environment} → {_told(after)} of {after.environment}"
    if not changes:
        yield "Nothing differs."
        return
    yield ""
    rows = [(c.name, _CHANGES[c.change], _version(c.before), _version(c.after)) for c in changes]
    yield from columns_of_text(("node", "change", "before", "after"), rows)


def overview_data(overview: Any) -> dict[str, Any]:
    """An environment as a JSON value."""
    about, at, lock = overview.environment, overview.checkpoint, overview.lock
    return {
        "name": about.name,
        "status": str(about.status),
        "nodes": overview.nodes,
        "baseline": about.baseline or None,
        "created_at": about.created_at.isoformat(),
        "created_by": about.created_by or None,
        "updated_at": about.updated_at.isoformat(),
        "run_id": about.run_id or None,
        "checkpoint": {"id": at.id, "number": at.number} if at is not None else None,
        "ttl": about.ttl,
        "lock": {"owner": lock.owner, "since": lock.since.isoformat()} if lock is not None else None,
        "unfinished": overview.unfinished,
    }


def binding_data(binding: Any) -> dict[str, Any]:
    """A binding as a JSON value."""
    return {
        "name": binding.name,
        "type": binding.type,
        "kind": binding.kind,
        "version": binding.version_hash,
        "relation": str(binding.relation) if binding.relation is not None else None,
        "snapshot_id": binding.snapshot_id,
    }


def checkpoint_data(checkpoint: Any, current: Mapping[str, str]) -> dict[str, Any]:
    """A checkpoint as a JSON value."""
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


def change_data(change: Any) -> dict[str, Any]:
    """A node that differs as a JSON value."""
    sides = {"before": change.before, "after": change.after}
    return {
        "name": change.name,
        "change": change.change,
        **{side: binding_data(binding) if binding is not None else None for side, binding in sides.items()},
    }


def adoption_lines(adopted: Sequence[Any], environment: str, dry_run: bool) -> Iterator[str]:
    """What became of tables that were built before there were environments."""
    for one in adopted:
        if one.why_not:
            yield f"kept     {one.relation}: {one.why_not}"
        elif one.table is not None:
            yield f"adopted  {one.relation} → {one.table}"
        elif one.gave_way:
            yield f"removed  {one.relation}: the next build makes the view again"
    count = sum(one.table is not None for one in adopted)
    would = "would be" if dry_run else "are"
    yield f"{count} tables {would} in {environment}; `sqb build --virtual-env {environment}` shows them"


def adoption_data(adopted: Any) -> dict[str, Any]:
    """The same as a JSON value."""
    table = str(adopted.table) if adopted.table is not None else None
    return {
        "name": adopted.name,
        "relation": str(adopted.relation),
        "table": table,
        "gave_way": adopted.gave_way,
        "why_not": adopted.why_not or None,
    }


def _version(binding: Any) -> str:
    if binding is None:
        return "—"
    at = f" at {binding.snapshot_id}" if binding.snapshot_id is not None else ""
    return f"{binding.version_hash[:_SHOWN]}{at}"


def _told(checkpoint: Any) -> str:
    made = checkpoint.detail or checkpoint.reason
    return f"checkpoint {checkpoint.number} ({made}, {_age(checkpoint.created_at)} ago)"


def _age(since: datetime) -> str:
    return human_age(max(0.0, (datetime.now(UTC) - since).total_seconds()))
