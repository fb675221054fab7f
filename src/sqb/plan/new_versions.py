"""New versions of nodes in a virtual environment: each gets a table, a clone of the version before where that serves.

Pure: works on a plan whose decisions have been made by comparing each node with the version that the environment shows.
"""

from __future__ import annotations

from dataclasses import replace

from sqb.compile.model import Node, Project
from sqb.plan.model import Plan, PlannedNode, Prior, Reason
from sqb.plan.observed import Observed, PriorVersion, compute_checks_token


def plan_new_versions(plan: Plan, project: Project, observed: Observed) -> Plan:
    """The plan in which every node that has a new version gets a table of that version."""
    nodes = (_plan_version(n, project, observed) if n.name in observed.new_versions else n for n in plan.nodes)
    return replace(plan, nodes=tuple(nodes))


def _plan_version(planned: PlannedNode, project: Project, observed: Observed) -> PlannedNode:
    if planned.action == "blocked":
        return planned
    node, shown = project.nodes[planned.name], observed.priors.get(planned.name)
    if shown is None:
        built = planned.action == "skip"
        return replace(planned, detail="this version has been built already") if built else planned
    prior = _build_prior(node, shown, project, observed)
    if prior is None:
        # Each version has its own view, even if it equals the view of the version before.
        return replace(planned, action="run", run_type="backfill", reason=_derive_reason(planned), pending=False)
    if planned.run_type in ("skip", "check") and not planned.pending:
        detail = "its rows are those of the version before"
        return replace(
            planned, action="run", run_type="reuse", reason=_derive_reason(planned), detail=detail, prior=prior
        )
    return replace(planned, prior=prior)


def _build_prior(node: Node, shown: PriorVersion, project: Project, observed: Observed) -> Prior | None:
    """The version that a new one begins as; None where it is built from nothing."""
    if node.kind == "view" or shown.snapshot_id is None:
        return None
    passed = observed.relations[node.relation].checks
    checked = passed == compute_checks_token(node, project, observed.relations)
    return Prior(shown.relation, shown.snapshot_id, checked)


def _derive_reason(planned: PlannedNode) -> Reason:
    return Reason.UPSTREAM_CHANGED if planned.reason in (Reason.NORMAL, Reason.CHECKS_CHANGED) else planned.reason
