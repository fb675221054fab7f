"""Virtual environments in the output of plans and builds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqb.console.paint import Paint
from sqb.environments.building import Settled
from sqb.environments.entering import Entered
from sqb.plan.values import Plan

_NAMES = 8


def environment_lines(
    entered: Entered, plan: Plan, views: int, paint: Paint, missing: Sequence[str] = ()
) -> Iterator[str]:
    """The environment that a plan is for: its status, what is stale in it, and which of its views are missing."""
    new = f", new: begins as {entered.baseline}" if entered.environment is None and entered.refs else ""
    new = ", new" if entered.environment is None and not new else new
    yield f"Virtual environment: {entered.name} ({entered.status.shown}{new})"
    roots = [s for s in entered.stale.values() if s.root]
    named = _listed([f"{s.name}: {s.reason}" for s in roots])
    yield f"Stale roots: {len(roots)}{f' ({named})' if named else ''}"
    yield f"Stale models: {len(entered.stale)}"
    if entered.removed:
        yield f"Not in the project any more: {_listed(list(entered.removed))}"
    if missing:
        yield paint(f"Views that are missing or not its own: {len(missing)} ({_listed(list(missing))})", "yellow")
        yield "The next build puts them back."
    if views > len(missing) and plan.nothing_to_do:
        yield f"Views to move: {views - len(missing)}, to what other environments have built or refreshed"
    if left := entered.left_by(plan.options.selected):
        yield paint(f"Remaining stale after this selection: {len(left)} ({_listed(left)})", "yellow")


def settled_lines(settled: Settled, paint: Paint) -> Iterator[str]:
    """What a build made of its environment."""
    if settled.untouched:
        yield paint(
            f"Virtual environment {settled.name} shows what it showed before: not everything succeeded.", "yellow"
        )
        return
    counts = [(settled.begun, "made"), (settled.views, "moved")]
    told = [f"{count} {'view' if count == 1 else 'views'} {what}" for count, what in counts if count]
    yield f"Virtual environment {settled.name}: {settled.status.shown}, {', '.join(told) or 'nothing moved'}"
    if settled.remaining:
        yield paint(f"Remaining stale: {len(settled.remaining)} ({_listed(list(settled.remaining))})", "yellow")


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(names[:_NAMES]) + more
