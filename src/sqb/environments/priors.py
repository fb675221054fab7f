"""A plan for an environment: nodes without a table of their version are compared with the version that is bound."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqb.build.observe import Look, standing_of
from sqb.compiled import Node, Project
from sqb.environments.entering import Entered
from sqb.environments.values import Ref
from sqb.environments.versions import todays_name
from sqb.lake.metadata import IDENTITY_PREFIX
from sqb.lake.port import TableState
from sqb.names import Relation
from sqb.plan.observed import Standing, checks_token
from sqb.plan.values import Plan, PlannedNode, Prior, Reason


def with_priors(entered: Entered, look: Look) -> tuple[Look, dict[str, TableState]]:
    """The look with bound versions standing for those that have no table yet, and these versions by node.

    What they were made from has the names of today, so that it can be compared with what would be read now.
    """
    project, refs = entered.project, entered.refs
    wanted: dict[str, Relation] = {}
    for name in entered.stale:
        ref, node = refs.get(name), project.nodes[name]
        if ref is not None and ref.binding.relation is not None and node.relation not in look.observed.relations:
            wanted[name] = ref.binding.relation
    look = _with_checks(entered, look)
    if not wanted:
        return look, {}
    pointers = entered.lake.pointers()
    states = entered.lake.tables(pointers[r] for r in wanted.values() if r in pointers)
    by_logical = {n.relation: n.name for n in entered.direct}
    as_bound = {
        n: states[r] if _is_ours(states[r]) else _at_snapshot(states[r], refs[n], entered.lake.document(pointers[r]))
        for n, r in wanted.items()
        if r in states
    }
    found = {n: _renamed(s, project, by_logical) for n, s in as_bound.items() if s is not None}
    standing = {project.nodes[n].relation: standing_of(s) for n, s in found.items()}
    observed = replace(look.observed, relations={**look.observed.relations, **standing})
    priors = {wanted[n]: s for n, s in found.items()}
    return replace(look, observed=observed, states={**look.states, **priors}), found


def _is_ours(state: TableState) -> bool:
    return bool(state.identity) and not state.drifted


def _at_snapshot(state: TableState, ref: Ref, document: Mapping[str, Any]) -> TableState | None:
    """A table that others have written to, as the environment shows it; None where it cannot be gone back to."""
    wanted = ref.binding.snapshot_id
    snapshot = next((s for s in document.get("snapshots") or () if s["snapshot-id"] == wanted), None)
    if snapshot is None or snapshot.get("schema-id") != document.get("current-schema-id"):
        return None
    summary: Mapping[str, str] = snapshot.get("summary") or {}
    identity = {k: v for k, v in summary.items() if k.startswith(IDENTITY_PREFIX)}
    if "sqb.content" not in identity:
        return None
    rows = summary.get("total-records")
    return replace(
        state,
        snapshot_id=wanted,
        same_rows=(snapshot["snapshot-id"],),
        snapshot_columns=state.columns,
        rows=int(rows) if rows is not None else None,
        identity=identity,
        drifted=False,
        properties={},
        left={},
    )


def _with_checks(entered: Entered, look: Look) -> Look:
    """The look in which checks have passed that passed in this environment; others may have asked others since."""
    relations = dict(look.observed.relations)
    for name, ref in entered.refs.items():
        node = entered.project.nodes.get(name)
        standing = relations.get(node.relation) if node is not None else None
        if node is None or standing is None or not ref.checks or ref.binding.relation != node.relation:
            continue
        if standing.version.snapshot_id == ref.binding.snapshot_id and not standing.is_view:
            relations[node.relation] = replace(standing, checks=ref.checks)
    return replace(look, observed=replace(look.observed, relations=relations))


def _renamed(state: TableState, project: Project, by_logical: Mapping[Relation, str]) -> TableState:
    sources = json.loads(state.identity.get("sqb.sources", "{}"))
    renamed = {todays_name(key, project, by_logical): version for key, version in sources.items()}
    text = json.dumps(renamed, separators=(",", ":"), sort_keys=True)
    return replace(state, identity={**state.identity, "sqb.sources": text})


def for_reckoning(look: Look, priors: Mapping[str, TableState], project: Project) -> Look:
    """The look with bound versions in the place of new ones: what they will be when they have begun."""
    begun = {project.nodes[n].relation: s for n, s in priors.items() if not s.is_view}
    return replace(look, states={**look.states, **begun}) if begun else look


def with_versions(plan: Plan, entered: Entered, look: Look, priors: Mapping[str, TableState]) -> Plan:
    """The plan in which every node that is stale gets a table of its version."""
    nodes = tuple(_with_version(n, entered, look, priors) if n.name in entered.stale else n for n in plan.nodes)
    return replace(plan, nodes=nodes)


def _with_version(planned: PlannedNode, entered: Entered, look: Look, priors: Mapping[str, TableState]) -> PlannedNode:
    if planned.action == "blocked":
        return planned
    node, state = entered.project.nodes[planned.name], priors.get(planned.name)
    if state is None:
        return _built_already(planned) if planned.action == "skip" else planned
    if node.kind == "view":
        # A version is a view of its own, even where nobody could tell it from the one before.
        return replace(planned, action="run", run_type="backfill", reason=_reason(planned), pending=False)
    standing = look.observed.relations[node.relation]
    prior = _prior(node, entered, state, standing, look)
    if prior is None:
        return replace(planned, action="run", run_type="backfill", reason=_reason(planned), pending=False)
    if planned.run_type in ("skip", "check") and not planned.pending:
        detail = "its rows are those of the version before"
        return replace(planned, action="run", run_type="reuse", reason=_reason(planned), detail=detail, prior=prior)
    return replace(planned, prior=prior)


def _prior(node: Node, entered: Entered, state: TableState, standing: Standing, look: Look) -> Prior | None:
    ref = entered.refs[node.name]
    if state.is_view or state.snapshot_id is None or "sqb.content" not in state.identity:
        return None
    assert ref.binding.relation is not None
    checked = standing.checks == checks_token(node, entered.project, look.observed.relations)
    return Prior(ref.binding.relation, state.snapshot_id, checked)


def _reason(planned: PlannedNode) -> Reason:
    return Reason.UPSTREAM_CHANGED if planned.reason in (Reason.NORMAL, Reason.CHECKS_CHANGED) else planned.reason


def _built_already(planned: PlannedNode) -> PlannedNode:
    return replace(planned, detail="this version has been built already")
