"""Virtual environments in the output of plans and builds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqb.console.style import Paint
from sqb.environments.build.finalize import EnvironmentResult
from sqb.environments.session import EnvironmentSession
from sqb.plan.model import Plan

_MAX_NAMES = 8


def format_environment(
    session: EnvironmentSession, plan: Plan, views: int, paint: Paint, missing: Sequence[str] = ()
) -> Iterator[str]:
    """The environment that a plan is for: its status, what is stale in it, and which of its views are missing."""
    new = f", new: begins as {session.baseline}" if session.environment is None and session.refs else ""
    new = ", new" if session.environment is None and not new else new
    yield f"Virtual environment: {session.name} ({session.status.label}{new})"
    roots = [s for s in session.stale.values() if s.root]
    named = _format_names([f"{s.name}: {s.reason}" for s in roots])
    yield f"Stale roots: {len(roots)}{f' ({named})' if named else ''}"
    yield f"Stale models: {len(session.stale)}"
    if session.removed:
        yield f"No longer in the project: {_format_names(list(session.removed))}"
    if missing:
        yield paint(f"Views that are missing or not its own: {len(missing)} ({_format_names(list(missing))})", "yellow")
        yield "The next build puts them back."
    if views > len(missing) and plan.nothing_to_do:
        yield f"Views to move: {views - len(missing)}, to what other environments have built or refreshed"
    if remaining := session.list_unselected_stale(plan.options.selected):
        yield paint(f"Remaining stale after this selection: {len(remaining)} ({_format_names(remaining)})", "yellow")


def format_environment_result(result: EnvironmentResult, paint: Paint) -> Iterator[str]:
    """What a build made of its environment."""
    if result.failed:
        yield paint(
            f"Virtual environment {result.name} shows what it showed before: not everything succeeded.", "yellow"
        )
        return
    counts = [(result.initial_views, "made"), (result.views, "moved")]
    changes = [f"{count} {'view' if count == 1 else 'views'} {what}" for count, what in counts if count]
    yield f"Virtual environment {result.name}: {result.status.label}, {', '.join(changes) or 'nothing moved'}"
    if result.remaining:
        yield paint(f"Remaining stale: {len(result.remaining)} ({_format_names(list(result.remaining))})", "yellow")


def _format_names(names: list[str]) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more
