"""Promotions and rollbacks as lines of text and as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sqb.console.paint import Paint
from sqb.names import human_seconds

if TYPE_CHECKING:
    from sqb.environments.promoting import Promoted
    from sqb.environments.promotion import Misfit, Step
    from sqb.environments.rolling_back import RolledBack
    from sqb.environments.values import Checkpoint

_MANY = 20
_SIGNS = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "cyan"), "data": ("~", "cyan")}


def promotion_lines(done: Promoted, dry_run: bool, seconds: float, verbose: bool, paint: Paint) -> Iterator[str]:
    """What was promoted, what was not, and what the target is now."""
    promotion = done.promotion
    yield from _step_lines(promotion.steps, verbose, paint)
    if promotion.included:
        yield paint(f"included, as selected models need it: {_listed(promotion.included, verbose)}", "dim")
    if promotion.kept:
        yield paint(f"kept, as only {done.target} has changed it: {_listed(promotion.kept, verbose)}", "dim")
    if promotion.unselected:
        yield paint(f"not selected: {_listed(promotion.unselected, verbose)}", "dim")
    yield from _left_lines(promotion.left, done.target, paint)
    if not promotion.steps:
        what = f"Nothing to promote: {_why_nothing(done)}"
    elif dry_run:
        what = f"Would promote {_nodes(promotion.steps)} from {done.source} to {done.target}"
    else:
        what = f"Promoted {_nodes(promotion.steps)} from {done.source} to {done.target}: {_views(done.views)} moved"
    at = f", checkpoint {done.checkpoint.number}" if done.checkpoint is not None else ""
    status = "" if not promotion.steps and done.checkpoint is None else f", status {promotion.status}{at}"
    yield f"{what}{status}, 0 models executed ({human_seconds(seconds)})"


def _why_nothing(done: Promoted) -> str:
    if done.promotion.unselected:
        return f"{done.target} has everything of {done.source} that was selected"
    if done.promotion.kept:
        return f"{done.source} has changed nothing since {done.target} moved on"
    return f"{done.target} has everything of {done.source}"


def rollback_lines(done: RolledBack, dry_run: bool, seconds: float, verbose: bool, paint: Paint) -> Iterator[str]:
    """What an environment shows again."""
    yield from _step_lines(done.steps, verbose, paint)
    yield from _left_lines(done.left, done.environment, paint)
    at = done.checkpoint
    to = f"checkpoint {at.number} ({at.detail or at.reason}, {at.created_at:%Y-%m-%d %H:%M})"
    if not done.steps:
        what = f"{done.environment} shows {to} already"
    elif dry_run:
        what = f"Would roll {done.environment} to {to}: {_nodes(done.steps)}"
    else:
        what = f"Rolled {done.environment} to {to}: {_views(done.views)} moved"
    yield f"{what}, status {done.status}, 0 models executed ({human_seconds(seconds)})"


def _step_lines(steps: Sequence[Step], verbose: bool, paint: Paint) -> Iterator[str]:
    shown = steps if verbose or len(steps) <= _MANY else steps[:_MANY]
    width = max((len(s.name) for s in shown), default=0)
    for step in shown:
        sign, colour = _SIGNS[step.what]
        if step.what == "data":
            how = f"{step.before[:8]}, other rows"
        else:
            how = " → ".join(v[:8] for v in (step.before, step.after) if v)
        yield paint(f"{sign} {step.name.ljust(width)}  {how}", colour)
    if len(steps) > len(shown):
        yield f"  and {len(steps) - len(shown)} more (-v shows them)"


def _left_lines(left: Sequence[Misfit], environment: str, paint: Paint) -> Iterator[str]:
    for one in left[:_MANY]:
        reads = _listed(one.reads, False)
        yield paint(f"stale in {environment}: {one.name}, made from another version of {reads}", "yellow")
    if len(left) > _MANY:
        yield paint(f"and {len(left) - _MANY} more", "yellow")


def _nodes(steps: Sequence[Step]) -> str:
    return f"{len(steps)} {'node' if len(steps) == 1 else 'nodes'}"


def _views(count: int) -> str:
    return f"{count} {'view' if count == 1 else 'views'}"


def _listed(names: Sequence[str], verbose: bool) -> str:
    most = len(names) if verbose else 5
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def promotion_data(done: Promoted, dry_run: bool, seconds: float) -> dict[str, Any]:
    """A promotion as one JSON document."""
    promotion = done.promotion
    return {
        "from": done.source,
        "to": done.target,
        "dry_run": dry_run,
        "status": str(promotion.status),
        "checkpoint": _checkpoint_data(done.checkpoint) if done.checkpoint is not None else None,
        "nodes": [_step_data(s) for s in promotion.steps],
        "included": list(promotion.included),
        "kept": list(promotion.kept),
        "unselected": list(promotion.unselected),
        "stale": [_left_data(m) for m in promotion.left],
        "summary": _summary(promotion.steps, done.views, seconds),
    }


def rollback_data(done: RolledBack, dry_run: bool, seconds: float) -> dict[str, Any]:
    """A rollback as one JSON document."""
    return {
        "environment": done.environment,
        "dry_run": dry_run,
        "status": str(done.status),
        "checkpoint": _checkpoint_data(done.checkpoint),
        "nodes": [_step_data(s) for s in done.steps],
        "stale": [_left_data(m) for m in done.left],
        "summary": _summary(done.steps, done.views, seconds),
    }


def _checkpoint_data(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "id": checkpoint.id,
        "number": checkpoint.number,
        "parent": checkpoint.parent or None,
        "reason": checkpoint.reason,
        "detail": checkpoint.detail,
        "created_at": checkpoint.created_at.isoformat(),
    }


def _step_data(step: Step) -> dict[str, Any]:
    return {"name": step.name, "change": step.what, "before": step.before or None, "after": step.after or None}


def _left_data(left: Misfit) -> dict[str, Any]:
    return {"name": left.name, "made_from_other_versions_of": list(left.reads)}


def _summary(steps: Sequence[Step], views: int, seconds: float) -> dict[str, Any]:
    counts = {what: sum(s.what == what for s in steps) for what in _SIGNS}
    return {**counts, "views": views, "executed": 0, "seconds": round(seconds, 3)}
