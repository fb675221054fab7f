"""Whether a plan that was made before still shows what a build would do now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqb.compile.model import Project
from sqb.errors.call import PlanOutOfDate
from sqb.plan.model import Plan, PlannedNode

_MAX_SHOWN = 5


def list_definitions(plan: Plan, project: Project) -> dict[str, str]:
    """What makes the nodes that are to run the same nodes."""
    graph = project.graph
    return {n.name: graph[n.name].local_hash for n in plan.nodes if n.action == "run" and n.name in graph}


def check_plan_current(
    then: Mapping[str, PlannedNode], definitions: Mapping[str, str], now: Plan, project: Project
) -> None:
    """Refuse to build when something would run that was not planned, or that has become something else.

    A node that need not run any more, since another process has built it, is not a reason: then less is done.
    """
    differences = list(_iter_differences(then, definitions, now, list_definitions(now, project)))
    if differences:
        more = [f"and {len(differences) - _MAX_SHOWN} more"] if len(differences) > _MAX_SHOWN else []
        raise PlanOutOfDate(
            "the project or the lake has changed since this plan was made, and a build would do something else",
            hint="make a new plan, or build without one: then what has to be done is done",
            evidence=(*differences[:_MAX_SHOWN], *more),
        )


def _iter_differences(
    then: Mapping[str, PlannedNode], definitions: Mapping[str, str], now: Plan, current: Mapping[str, str]
) -> Iterator[str]:
    for node in now.nodes:
        before = then.get(node.name)
        if node.action != "run":
            continue
        why = f"{node.reason}{f': {node.detail}' if node.detail else ''}"
        if before is None:
            yield f"{node.name} would run now, and was not there ({why})"
        elif before.action != "run":
            yield f"{node.name} would run now, and was planned to be {_ACTION_TEXTS[before.action]} ({why})"
        elif definitions.get(node.name) != current.get(node.name):
            yield f"{node.name} has another definition now"
        elif before.run_type != node.run_type:
            yield f"{node.name} would be run as {node.run_type} now, and was planned as {before.run_type} ({why})"


_ACTION_TEXTS = {"skip": "skipped", "blocked": "blocked"}
