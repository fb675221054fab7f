"""What the graph is coloured by: the state of each node, by the plan and by how it last ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from sqb.plan.model import PlannedNode, Reason

State = Literal["current", "stale", "failed", "blocked", "new", "unknown"]

_NEVER_BUILT = (Reason.FIRST_RUN, Reason.RELATION_MISSING)


def judge_node(planned: PlannedNode | None, last: Mapping[str, Any] | None) -> tuple[State, str]:
    """The state of a node and why, in words; `last` is how its last run ended."""
    if planned is None:
        return "unknown", "nothing is known of it: the project could not be planned"
    has_failed = last is not None and last.get("status") == "failed"
    match planned.action:
        case "skip":
            return "current", planned.detail or "up to date"
        case "blocked":
            return "blocked", _describe(planned)
        case _ if has_failed:
            return "failed", f"the last run failed; {_describe(planned)}"
        case _ if planned.reason is Reason.EVERY_BUILD:
            return "current", planned.detail or "runs in every build"
        case _ if planned.pending and planned.root and all(root.reason is Reason.EVERY_BUILD for root in planned.root):
            names = ", ".join(root.name for root in planned.root)
            return "current", f"up to date; runs again if {names} brings something new"
        case _:
            return "new" if planned.reason in _NEVER_BUILT else "stale", _describe(planned)


def _describe(planned: PlannedNode) -> str:
    words = f"{planned.reason}: {planned.detail}" if planned.detail else str(planned.reason)
    return f"{words}; if its inputs change" if planned.pending and "if " not in words else words


def judge_source(freshness: Mapping[str, Any] | None) -> tuple[State, str]:
    """The state of a source by its freshness: too old is failed, new data is stale."""
    if freshness is None:
        return "current", "read as it is"
    if freshness.get("error"):
        return "unknown", str(freshness["error"])
    if freshness.get("age_status") == "error":
        return "failed", "older than its age policy allows"
    status = str(freshness.get("status"))
    return ("stale", "it has new data") if status in ("new", "changed") else ("current", status)
