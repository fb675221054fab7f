"""Promotions and rollbacks as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sqb.console.style import Paint
from sqb.names import format_seconds

if TYPE_CHECKING:
    from sqb.environments.promotion.promote import PromotionResult
    from sqb.environments.promotion.three_way_merge import Misfit, Step
    from sqb.operations.environments.promotion import PromoteOutcome, RollbackOutcome

_MAX_STEPS = 20
_SIGNS = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "cyan"), "data": ("~", "cyan")}


def format_promotion(outcome: PromoteOutcome, verbose: bool, paint: Paint) -> Iterator[str]:
    """What was promoted, what was not, and what the target is now."""
    result, promotion = outcome.result, outcome.result.promotion
    yield from _format_steps(promotion.steps, verbose, paint)
    if promotion.included:
        yield paint(f"included, as selected models need it: {_format_names(promotion.included, verbose)}", "dim")
    if promotion.unchanged:
        yield paint(
            f"kept, as only {result.target} has changed it: {_format_names(promotion.unchanged, verbose)}", "dim"
        )
    if promotion.unselected:
        yield paint(f"not selected: {_format_names(promotion.unselected, verbose)}", "dim")
    yield from _format_misfits(promotion.misfits, result.target, paint)
    if not promotion.steps:
        what = f"Nothing to promote: {_explain_nothing(result)}"
    elif outcome.dry_run:
        what = f"Would promote {_format_node_count(promotion.steps)} from {result.source} to {result.target}"
    else:
        nodes, views = _format_node_count(promotion.steps), _format_view_count(result.views)
        what = f"Promoted {nodes} from {result.source} to {result.target}: {views} moved"
    at = f", checkpoint {result.checkpoint.number}" if result.checkpoint is not None else ""
    status = "" if not promotion.steps and result.checkpoint is None else f", status {promotion.status}{at}"
    yield f"{what}{status}, 0 models executed ({format_seconds(outcome.seconds)})"


def _explain_nothing(result: PromotionResult) -> str:
    if result.promotion.unselected:
        return f"{result.target} has everything of {result.source} that was selected"
    if result.promotion.unchanged:
        return f"{result.source} has changed nothing since {result.target} moved on"
    return f"{result.target} has everything of {result.source}"


def format_rollback(outcome: RollbackOutcome, verbose: bool, paint: Paint) -> Iterator[str]:
    """What an environment shows again."""
    result = outcome.result
    yield from _format_steps(result.steps, verbose, paint)
    yield from _format_misfits(result.left, result.environment, paint)
    at = result.checkpoint
    to = f"checkpoint {at.number} ({at.detail or at.reason}, {at.created_at:%Y-%m-%d %H:%M})"
    if not result.steps:
        what = f"{result.environment} shows {to} already"
    elif outcome.dry_run:
        what = f"Would roll {result.environment} to {to}: {_format_node_count(result.steps)}"
    else:
        what = f"Rolled {result.environment} to {to}: {_format_view_count(result.views)} moved"
    yield f"{what}, status {result.status}, 0 models executed ({format_seconds(outcome.seconds)})"


def _format_steps(steps: Sequence[Step], verbose: bool, paint: Paint) -> Iterator[str]:
    visible = steps if verbose or len(steps) <= _MAX_STEPS else steps[:_MAX_STEPS]
    width = max((len(s.name) for s in visible), default=0)
    for step in visible:
        sign, colour = _SIGNS[step.what]
        if step.what == "data":
            how = f"{step.before[:8]}, other rows"
        else:
            how = " → ".join(v[:8] for v in (step.before, step.after) if v)
        yield paint(f"{sign} {step.name.ljust(width)}  {how}", colour)
    if len(steps) > len(visible):
        yield f"  and {len(steps) - len(visible)} more (-v shows them)"


def _format_misfits(misfits: Sequence[Misfit], environment: str, paint: Paint) -> Iterator[str]:
    for misfit in misfits[:_MAX_STEPS]:
        reads = _format_names(misfit.reads, False)
        yield paint(f"stale in {environment}: {misfit.name}, made from another version of {reads}", "yellow")
    if len(misfits) > _MAX_STEPS:
        yield paint(f"and {len(misfits) - _MAX_STEPS} more", "yellow")


def _format_node_count(steps: Sequence[Step]) -> str:
    return f"{len(steps)} {'node' if len(steps) == 1 else 'nodes'}"


def _format_view_count(count: int) -> str:
    return f"{count} {'view' if count == 1 else 'views'}"


def _format_names(names: Sequence[str], verbose: bool) -> str:
    most = len(names) if verbose else 5
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
