"""A plan for an environment: nodes without a table of their version are compared with the version that is bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqb.build.observe.lake import LakeState, build_relation_state
from sqb.compile.model import Node, Project
from sqb.environments.model import Ref
from sqb.environments.naming import parse_logical_relation
from sqb.environments.session import EnvironmentSession
from sqb.environments.versions import resolve_input_name
from sqb.lake.port import Pointer, Tables, TableState
from sqb.names import Relation
from sqb.plan.commit_identity import CommitIdentity
from sqb.plan.model import Plan, PlannedNode, Prior, Reason
from sqb.plan.observed import RelationState, compute_checks_token
from sqb.plan.versions import encode_sources, parse_sources


def add_prior_states(session: EnvironmentSession, look: LakeState) -> tuple[LakeState, dict[str, TableState]]:
    """Observe bound versions in the place of versions without a table; returns them by node, too.

    What they were made from has the names of today, so that it can be compared with what would be read now.
    """
    project, refs = session.project, session.refs
    prior_relations: dict[str, Relation] = {}
    for name in session.stale:
        ref, node = refs.get(name), project.nodes[name]
        if ref is not None and ref.binding.relation is not None and node.relation not in look.observed.relations:
            prior_relations[name] = ref.binding.relation
    prior_relations |= _find_adopted(session, look)
    look = _restore_checks(session, look)
    if not prior_relations:
        return look, {}
    pointers = session.lake.list_pointers()
    states = session.lake.read_tables(pointers[r] for r in prior_relations.values() if r in pointers)
    by_logical = {n.relation: n.name for n in session.direct}
    bound_states = {
        n: states[r]
        if _is_written_by_sqb(states[r])
        else _read_bound_state(states[r], refs[n], session.lake, pointers[r])
        for n, r in prior_relations.items()
        if r in states
    }
    renamed = {n: _rename_sources(s, project, by_logical) for n, s in bound_states.items() if s is not None}
    current = {project.nodes[n].relation: build_relation_state(s) for n, s in renamed.items()}
    observed = replace(look.observed, relations={**look.observed.relations, **current})
    priors = {prior_relations[n]: s for n, s in renamed.items()}
    return replace(look, observed=observed, states={**look.states, **priors}), renamed


def _find_adopted(session: EnvironmentSession, look: LakeState) -> dict[str, Relation]:
    """Tables that were adopted for versions which the project has left before a build has shown them: what they hold
    is what the versions of now begin with."""
    if session.environment is not None and session.environment.checkpoint:
        return {}
    names = [n for n in session.stale if n not in session.refs]
    missing = [n for n in names if session.project.nodes[n].relation not in look.observed.relations]
    logical = {session.direct.nodes[n].relation: n for n in missing if session.direct.nodes[n].kind != "view"}
    pointers = session.lake.list_pointers() if logical else {}
    candidates = {r: p for r, p in pointers.items() if not p.is_view and parse_logical_relation(r) in logical}
    if not candidates:
        return {}
    states = session.lake.read_tables(candidates.values()).items()
    adopted = sorted((s.made_ms or 0, r) for r, s in states if s.identity.adopted and _is_written_by_sqb(s))
    return {logical[of]: relation for _, relation in adopted if (of := parse_logical_relation(relation)) is not None}


def _is_written_by_sqb(state: TableState) -> bool:
    return bool(state.identity) and not state.drifted


def _read_bound_state(state: TableState, ref: Ref, lake: Tables, pointer: Pointer) -> TableState | None:
    """A table that others have written to, as the environment shows it; None where it cannot be gone back to."""
    bound = lake.read_state_at_version(pointer, str(ref.binding.snapshot_id))
    if bound is None or bound.schema_id != state.schema_id or not bound.identity.content:
        return None
    return replace(bound, drifted=False, properties={}, last_identity=CommitIdentity())


def _restore_checks(session: EnvironmentSession, look: LakeState) -> LakeState:
    """The look in which checks have passed that passed in this environment; others may have asked others since."""
    relations = dict(look.observed.relations)
    for name, ref in session.refs.items():
        node = session.project.nodes.get(name)
        current = relations.get(node.relation) if node is not None else None
        if node is None or current is None or not ref.checks or ref.binding.relation != node.relation:
            continue
        if current.version.snapshot_id == ref.binding.snapshot_id and not current.is_view:
            relations[node.relation] = replace(current, checks=ref.checks)
    return replace(look, observed=replace(look.observed, relations=relations))


def _rename_sources(state: TableState, project: Project, by_logical: Mapping[Relation, str]) -> TableState:
    sources = parse_sources(state.identity.sources) or {}
    renamed = {resolve_input_name(key, project, by_logical): version for key, version in sources.items()}
    return replace(state, identity=replace(state.identity, sources=encode_sources(renamed)))


def project_prior_states(look: LakeState, priors: Mapping[str, TableState], project: Project) -> LakeState:
    """The look with bound versions in the place of new ones: what they will be when they have begun."""
    projected = {project.nodes[n].relation: s for n, s in priors.items() if not s.is_view}
    return replace(look, states={**look.states, **projected}) if projected else look


def plan_versions(plan: Plan, session: EnvironmentSession, look: LakeState, priors: Mapping[str, TableState]) -> Plan:
    """The plan in which every node that is stale gets a table of its version."""
    nodes = tuple(_plan_version(n, session, look, priors) if n.name in session.stale else n for n in plan.nodes)
    return replace(plan, nodes=nodes)


def _plan_version(
    planned: PlannedNode, session: EnvironmentSession, look: LakeState, priors: Mapping[str, TableState]
) -> PlannedNode:
    if planned.action == "blocked":
        return planned
    node, state = session.project.nodes[planned.name], priors.get(planned.name)
    if state is None:
        return _mark_built(planned) if planned.action == "skip" else planned
    if node.kind == "view":
        # Each version has its own view, even if it equals the view of the version before.
        return replace(planned, action="run", run_type="backfill", reason=_derive_reason(planned), pending=False)
    current = look.observed.relations[node.relation]
    prior = _build_prior(node, session, state, current, look)
    if prior is None:
        return replace(planned, action="run", run_type="backfill", reason=_derive_reason(planned), pending=False)
    if planned.run_type in ("skip", "check") and not planned.pending:
        detail = "its rows are those of the version before"
        return replace(
            planned, action="run", run_type="reuse", reason=_derive_reason(planned), detail=detail, prior=prior
        )
    return replace(planned, prior=prior)


def _build_prior(
    node: Node, session: EnvironmentSession, state: TableState, current: RelationState, look: LakeState
) -> Prior | None:
    if state.is_view or state.snapshot_id is None or not state.identity.content:
        return None
    relation = next(r for r, s in look.states.items() if s is state)
    checked = current.checks == compute_checks_token(node, session.project, look.observed.relations)
    return Prior(relation, state.snapshot_id, checked)


def _derive_reason(planned: PlannedNode) -> Reason:
    return Reason.UPSTREAM_CHANGED if planned.reason in (Reason.NORMAL, Reason.CHECKS_CHANGED) else planned.reason


def _mark_built(planned: PlannedNode) -> PlannedNode:
    return replace(planned, detail="this version has been built already")
