"""The nodes above a node in a plan, and what they mean for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqb.compile.model import Project
from sqb.plan.model import PlannedNode, Reason
from sqb.plan.observed import Observed


@dataclass(frozen=True, slots=True)
class Cause:
    """A reason to run or to be blocked, what was compared, and whether it is certain before anything has run."""

    reason: Reason
    detail: str = ""
    pending: bool = False


def is_producing_rows(above: PlannedNode | None) -> bool:
    """Whether an upstream node is built again; a run of its checks alone leaves its rows."""
    return above is not None and above.action == "run" and above.run_type != "check"


def find_blocked_cause(
    names: Iterable[str], project: Project, observed: Observed, planned: Mapping[str, PlannedNode]
) -> Cause | None:
    """Why a node cannot run that waits for these: one is blocked, or is not there and will not be made."""
    for name in names:
        above = planned.get(name)
        if above is not None and above.action == "blocked":
            return Cause(Reason.UPSTREAM_BLOCKED, f"{name} is blocked")
        if above is None and name in project.nodes and observed.get(project.nodes[name]) is None:
            return Cause(Reason.UPSTREAM_MISSING, f"{name} is not built and not selected")
    return None
