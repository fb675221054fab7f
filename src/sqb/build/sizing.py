"""What a plan can say about how nodes will run: the class of their query, and whether following the changes pays."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqb.build.observe import Look
from sqb.lake.iceberg import IcebergLake
from sqb.plan.observed import versions_read
from sqb.plan.values import Plan, PlannedNode, Reason
from sqb.sql.delta.facts import term_text
from sqb.workspace import Workspace

if TYPE_CHECKING:
    from sqb.build.incremental import Hole
    from sqb.build.turn import Turn

_FOLLOWS = (Reason.SOURCE_CHANGED, Reason.UPSTREAM_CHANGED)
# Kinds whose query is not what their table holds.
_APART = ("view", "incremental", "custom")
# Reading a query takes some milliseconds: past this many, those that wait for others are left for the build.
_MANY = 12


def sized(plan: Plan, workspace: Workspace, lake: IcebergLake, seen: Look) -> Plan:
    """The plan with the class of each query that runs on changed inputs, and what will be done about it."""
    found = [n for n in plan.nodes if n.action == "run" and n.type == "model" and n.kind not in _APART]
    in_sql = [n for n in found if not workspace.project.nodes[n.name].python]
    wanted = [n for n in in_sql if n.reason in _FOLLOWS]
    if len(wanted) > _MANY:
        wanted = [n for n in wanted if not n.pending]
    named = {n.name: _sized(n, workspace, lake, seen) for n in wanted}
    return replace(plan, nodes=tuple(named.get(n.name, n) for n in plan.nodes))


def _sized(planned: PlannedNode, workspace: Workspace, lake: IcebergLake, seen: Look) -> PlannedNode:
    from sqb.build.fallback import why_not
    from sqb.build.incremental import facts_of, present_holes, template_of, worth_following

    project = workspace.project
    node = project.nodes[planned.name]
    turn = looking_turn(planned, workspace, lake, seen)
    said = {"class": "opaque"}
    try:
        template = template_of(node, project, turn.live, turn.at_version)
        present = present_holes(turn, template)
        if present is not None:
            facts = facts_of(turn, template, present)
            said = {"class": facts.kind, "why": facts.why or "only changed rows flow through"}
            if facts.keys and facts.kind == "keyed":
                said["key"] = ", ".join(dict.fromkeys(term_text(t) for k in facts.keys[:3] for _, t in k.holes))
        if planned.pending and present is not None:
            return replace(planned, incremental=said)
        if present is not None and facts.kind == "opaque":
            return replace(planned, run_type="full", incremental=said)
        _, _, holes = worth_following(turn)
    except Exception as error:
        return replace(planned, run_type="full", incremental={**said, "why": str(why_not(error))})
    return replace(planned, run_type="incremental", incremental={**said, "size": size_text(holes)})


def size_text(holes: list[Hole]) -> str:
    """How much there is to follow, in words: a row that is rewritten again and again counts each time."""
    total = sum(h.state.rows or 0 for h in holes)
    sizes = [h.changed_rows for h in holes if h.changed]
    known = sum(s for s in sizes if s is not None)
    changed = f"{known:,} {'row' if known == 1 else 'rows'} changed"
    changed = "an unknown number of rows changed" if None in sizes else changed
    return f"{changed}, {total:,} input {'row' if total == 1 else 'rows'}"


def looking_turn(planned: PlannedNode, workspace: Workspace, lake: IcebergLake, seen: Look) -> Turn:
    """A node's turn as it would be now, for those who only look: it has no Spark."""
    from sqb.build.turn import Turn

    project = workspace.project
    node = project.nodes[planned.name]
    return Turn(
        node=node,
        planned=planned,
        workspace=workspace,
        lake=lake,
        standing=seen.states.get(node.relation),
        inputs=versions_read(node, project, seen.observed.relations),
        states=seen.states.get,
        externals=seen.externals,
        session=_no_session,
        files=seen.files,
    )


def _no_session() -> Any:
    raise AssertionError("planning runs nothing")
