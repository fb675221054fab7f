"""What stands above a node in a plan, and what that means for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqb.compiled import Project
from sqb.plan.observed import Observed
from sqb.plan.values import PlannedNode, Reason


@dataclass(frozen=True, slots=True)
class Why:
    """A reason to run or to be blocked, what was compared, and whether it is certain before anything has run."""

    reason: Reason
    detail: str = ""
    pending: bool = False


def makes_rows(above: PlannedNode | None) -> bool:
    """Whether what stands above is made again; checks alone leave it as it is."""
    return above is not None and above.action == "run" and above.run_type != "check"


def why_blocked(
    names: Iterable[str], project: Project, observed: Observed, planned: Mapping[str, PlannedNode]
) -> Why | None:
    """Why a node cannot run that waits for these: one is blocked, or is not there and will not be made."""
    for name in names:
        above = planned.get(name)
        if above is not None and above.action == "blocked":
            return Why(Reason.UPSTREAM_BLOCKED, f"{name} is blocked")
        if above is None and name in project.nodes and observed.of(project.nodes[name]) is None:
            return Why(Reason.UPSTREAM_MISSING, f"{name} is not built and not selected")
    return None
