"""What a plan can say about how nodes will run: the class of their query, and whether following the changes pays."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqb.build.observe.lake import LakeState
from sqb.lake.port import Lake
from sqb.plan.model import Plan, PlannedNode, Reason
from sqb.plan.observed import list_versions_read
from sqb.sql.delta.facts import format_key_expression
from sqb.workspace import Workspace

if TYPE_CHECKING:
    from sqb.build.incremental.refresh import TableSlot
    from sqb.build.node.context import NodeContext

_INCREMENTAL_REASONS = (Reason.SOURCE_CHANGED, Reason.UPSTREAM_CHANGED)
# Kinds whose query is not what their table holds.
_UNCLASSIFIED_KINDS = ("view", "incremental", "custom")
# Reading a query takes some milliseconds: past this many, those that wait for others are left for the build.
_MANY = 12


def classify_planned_queries(plan: Plan, workspace: Workspace, lake: Lake, lake_state: LakeState) -> Plan:
    """The plan with the class of each query that runs on changed inputs, and what will be done about it."""
    candidates = [
        n for n in plan.nodes if n.action == "run" and n.type == "model" and n.kind not in _UNCLASSIFIED_KINDS
    ]
    in_sql = [n for n in candidates if not workspace.project.nodes[n.name].python]
    changed = [n for n in in_sql if n.reason in _INCREMENTAL_REASONS]
    if len(changed) > _MANY:
        changed = [n for n in changed if not n.pending]
    named = {n.name: _classify_planned_node(n, workspace, lake, lake_state) for n in changed}
    return replace(plan, nodes=tuple(named.get(n.name, n) for n in plan.nodes))


def _classify_planned_node(
    planned: PlannedNode, workspace: Workspace, lake: Lake, lake_state: LakeState
) -> PlannedNode:
    from sqb.build.incremental.fallback import explain_fallback
    from sqb.build.incremental.refresh import analyse_query, build_node_template, plan_refresh, resolve_current_slots

    project = workspace.project
    node = project.nodes[planned.name]
    context = build_dry_context(planned, workspace, lake, lake_state)
    classification = {"class": "opaque"}
    try:
        template = build_node_template(node, project, context.live, context.at_version)
        present = resolve_current_slots(context, template)
        if present is not None:
            facts = analyse_query(context, template, present)
            classification = {"class": facts.kind, "why": facts.why or "only changed rows flow through"}
            if facts.keys and facts.kind == "keyed":
                classification["key"] = ", ".join(
                    dict.fromkeys(format_key_expression(t) for k in facts.keys[:3] for _, t in k.slots)
                )
        if planned.pending and present is not None:
            return replace(planned, incremental=classification)
        if present is not None and facts.kind == "opaque":
            return replace(planned, run_type="full", incremental=classification)
        _, _, slots = plan_refresh(context)
    except Exception as error:
        return replace(planned, run_type="full", incremental={**classification, "why": str(explain_fallback(error))})
    return replace(planned, run_type="incremental", incremental={**classification, "size": format_change_size(slots)})


def format_change_size(slots: list[TableSlot]) -> str:
    """How much there is to follow, in words: a row that is rewritten again and again counts each time."""
    total = sum(h.state.rows or 0 for h in slots)
    sizes = [h.changed_rows for h in slots if h.changed]
    known_rows = sum(s for s in sizes if s is not None)
    changed = f"{known_rows:,} {'row' if known_rows == 1 else 'rows'} changed"
    changed = "an unknown number of rows changed" if None in sizes else changed
    return f"{changed}, {total:,} input {'row' if total == 1 else 'rows'}"


def build_dry_context(planned: PlannedNode, workspace: Workspace, lake: Lake, lake_state: LakeState) -> NodeContext:
    """The context of a node for planning and `explain`: it has no Spark session."""
    from sqb.build.node.context import NodeContext

    project = workspace.project
    node = project.nodes[planned.name]
    return NodeContext(
        node=node,
        planned=planned,
        workspace=workspace,
        lake=lake,
        current=lake_state.states.get(node.relation),
        inputs=list_versions_read(node, project, lake_state.observed.relations),
        states=lake_state.states.get,
        externals=lake_state.externals,
        session=_refuse_session,
        files=lake_state.files,
    )


def _refuse_session() -> Any:
    raise AssertionError("planning runs nothing")
