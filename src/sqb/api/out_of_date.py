"""Whether a plan that was made before still shows what a build would do now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqb.compiled import Project
from sqb.errors_api import PlanOutOfDate
from sqb.plan.values import Plan, PlannedNode

_SHOWN = 5


def definitions_of(plan: Plan, project: Project) -> dict[str, str]:
    """What makes the nodes that are to run the same nodes."""
    graph = project.graph
    return {n.name: graph[n.name].local_hash for n in plan.nodes if n.action == "run" and n.name in graph}


def refuse_out_of_date(
    then: Mapping[str, PlannedNode], definitions: Mapping[str, str], now: Plan, project: Project
) -> None:
    """Refuse to build when something would run that was not planned, or that has become something else.

    What was to run and need not any more, since somebody has built it, is no reason: then less is done.
    """
    found = list(_differences(then, definitions, now, definitions_of(now, project)))
    if found:
        more = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
        raise PlanOutOfDate(
            "the project or the lake has changed since this plan was made, and a build would do something else",
            hint="make a new plan, or build without one: then what has to be done is done",
            evidence=(*found[:_SHOWN], *more),
        )


def _differences(
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
            yield f"{node.name} would run now, and was planned to be {_WORDS[before.action]} ({why})"
        elif definitions.get(node.name) != current.get(node.name):
            yield f"{node.name} has another definition now"
        elif before.run_type != node.run_type:
            yield f"{node.name} would be run as {node.run_type} now, and was planned as {before.run_type} ({why})"


_WORDS = {"skip": "skipped", "blocked": "blocked"}
