"""Environments, their refs and checkpoints as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqb.console.lines import format_table
from sqb.names import format_age

_HASH_LENGTH = 8
_CHANGES = {
    "version": "another version",
    "data": "other rows",
    "view": "another view",
    "added": "added",
    "removed": "removed",
}


def format_summaries(summaries: Sequence[Any], width: int | None = None) -> Iterator[str]:
    """All environments, one line each."""
    if not summaries:
        yield "No virtual environments yet: a build makes the first."
        return
    header = ("environment", "status", "nodes", "baseline", "last build", "checkpoint", "locked by")
    rows = []
    for summary in summaries:
        environment = summary.environment
        status = f"{environment.status} (unfinished)" if summary.unfinished else str(environment.status)
        at = summary.checkpoint.number if summary.checkpoint is not None else ""
        lock = f"{summary.lock.owner}, for {_format_age(summary.lock.since)}" if summary.lock is not None else ""
        rows.append(
            (
                environment.name,
                status,
                summary.nodes,
                environment.baseline,
                f"{_format_age(environment.updated_at)} ago",
                at,
                lock,
            )
        )
    yield from format_table(header, rows, width)
    if any(summary.unfinished for summary in summaries):
        yield "(unfinished: a command ended in the middle of moving it; the next one that moves it finishes that)"


def format_environment(
    summary: Any, refs: Mapping[str, Any], missing: Sequence[str] = (), width: int | None = None
) -> Iterator[str]:
    """One environment with what it shows."""
    environment = summary.environment
    yield f"{environment.name}: {environment.status}"
    author, run_id = environment.created_by, environment.run_id
    facts = {
        "baseline": environment.baseline,
        "made": f"{_format_age(environment.created_at)} ago" + (f" by {author}" if author else ""),
        "last build": f"{_format_age(environment.updated_at)} ago" + (f" ({run_id})" if run_id else ""),
        "checkpoint": _describe_checkpoint(summary.checkpoint) if summary.checkpoint is not None else "none",
        "lives for": f"{format_age(environment.ttl)} after its last build" if environment.ttl is not None else "",
        "locked by": f"{summary.lock.owner}, for {_format_age(summary.lock.since)}" if summary.lock is not None else "",
        "missing": f"the views of {', '.join(missing)}; the next build puts them back" if missing else "",
        "unfinished": "a command ended in the middle of moving it" if summary.unfinished else "",
    }
    yield from (f"  {name:<10}  {fact}" for name, fact in facts.items() if fact)
    yield ""
    yield from format_bindings((ref.binding for ref in refs.values()), width)


def format_bindings(bindings: Iterable[Any], width: int | None = None) -> Iterator[str]:
    """What is shown of models and seeds, and the versions of functions."""
    ordered = sorted(bindings, key=lambda b: b.name)
    tables = [b for b in ordered if b.relation is not None]
    functions = [b for b in ordered if b.relation is None]
    rows = [(b.name, b.version_hash[:_HASH_LENGTH], b.relation, b.snapshot_id or "") for b in tables]
    yield from format_table(("node", "version", "physical relation", "snapshot"), rows, width)
    if functions:
        yield ""
        versions = [(b.name, b.version_hash[:_HASH_LENGTH]) for b in functions]
        yield from format_table(("function", "version"), versions, width)


def format_checkpoints(
    checkpoints: Sequence[Any], current: Mapping[str, str], width: int | None = None
) -> Iterator[str]:
    """Checkpoints, one line each; `current` are the ones that environments are at."""
    if not checkpoints:
        yield "No checkpoints yet: a build that finalizes an environment makes one, and so does a promotion."
        return
    header = ("environment", "number", "checkpoint", "made", "by", "nodes", "run", "")
    rows = []
    for c in checkpoints:
        here = "← here" if current.get(c.environment) == c.id else ""
        made = (f"{_format_age(c.created_at)} ago", c.detail or c.reason)
        rows.append((c.environment, c.number, c.id, *made, len(c.refs), c.run_id, here))
    yield from format_table(header, rows, width)


def format_checkpoint(checkpoint: Any, bindings: Iterable[Any], width: int | None = None) -> Iterator[str]:
    """One checkpoint with everything that its environment showed."""
    yield f"{_describe_checkpoint(checkpoint)} of {checkpoint.environment}: {checkpoint.id}"
    facts = {"run": checkpoint.run_id, "git": checkpoint.git, "before it": checkpoint.parent}
    yield from (f"  {name:<10}  {fact}" for name, fact in facts.items() if fact)
    yield ""
    yield from format_bindings(bindings, width)


def format_changes(before: Any, after: Any, changes: Sequence[Any], width: int | None = None) -> Iterator[str]:
    """The nodes that differ between two checkpoints."""
    older = f"{_describe_checkpoint(before)} of {before.environment}"
    yield f"{older} → {_describe_checkpoint(after)} of {after.environment}"
    if not changes:
        yield "Nothing differs."
        return
    yield ""
    rows = [(c.name, _CHANGES[c.change], _format_version(c.before), _format_version(c.after)) for c in changes]
    yield from format_table(("node", "change", "before", "after"), rows, width)


def format_adoptions(adoptions: Sequence[Any], environment: str, dry_run: bool) -> Iterator[str]:
    """What became of tables that were built before there were environments."""
    for adoption in adoptions:
        if adoption.why_not:
            yield f"kept     {adoption.relation}: {adoption.why_not}"
        elif adoption.table is not None:
            yield f"adopted  {adoption.relation} → {adoption.table}"
        elif adoption.gave_way:
            yield f"removed  {adoption.relation}: the next build makes the view again"
    count = sum(adoption.table is not None for adoption in adoptions)
    would = "would be" if dry_run else "are"
    yield f"{count} tables {would} in {environment}; `sqb build --virtual-env {environment}` shows them"


def _format_version(binding: Any) -> str:
    if binding is None:
        return "—"
    at = f" at {binding.snapshot_id}" if binding.snapshot_id is not None else ""
    return f"{binding.version_hash[:_HASH_LENGTH]}{at}"


def _describe_checkpoint(checkpoint: Any) -> str:
    made = checkpoint.detail or checkpoint.reason
    return f"checkpoint {checkpoint.number} ({made}, {_format_age(checkpoint.created_at)} ago)"


def _format_age(since: datetime) -> str:
    return format_age(max(0.0, (datetime.now(UTC) - since).total_seconds()))
