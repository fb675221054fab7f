"""Observes what an environment shows of nodes whose new versions have no table yet: plans compare with that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqb.build.observe.lake import LakeState, build_relation_state
from sqb.compile.model import Project
from sqb.environments.model import Ref
from sqb.environments.naming import parse_logical_relation
from sqb.environments.session import EnvironmentSession
from sqb.environments.staleness import get_shown
from sqb.environments.versions import resolve_input_name
from sqb.lake.port import Pointer, Tables, TableState
from sqb.names import Relation
from sqb.plan.observed import PriorVersion
from sqb.plan.recorded.commit_identity import CommitIdentity
from sqb.plan.recorded.versions import encode_sources, parse_sources


def add_prior_states(session: EnvironmentSession, lake_state: LakeState) -> LakeState:
    """Observe bound versions in the place of versions without a table.

    What they were made from has the names of today, so that it can be compared with what would be read now.
    """
    project, refs = session.project, session.refs
    prior_relations: dict[str, Relation] = {}
    for name in session.stale:
        node = project.nodes[name]
        ref = get_shown(node, refs)
        if ref is not None and ref.binding.relation is not None and node.relation not in lake_state.observed.relations:
            prior_relations[name] = ref.binding.relation
    prior_relations |= _find_adopted(session, lake_state)
    lake_state = _restore_checks(session, lake_state)
    observed = replace(lake_state.observed, new_versions=frozenset(session.stale))
    if not prior_relations:
        return replace(lake_state, observed=observed)
    pointers = session.lake.list_pointers()
    states = session.lake.read_tables(pointers[r] for r in prior_relations.values() if r in pointers)
    by_logical = {relation: n.name for n in session.direct for relation in (*n.former_relations, n.relation)}
    bound_states = {
        n: states[r]
        if _is_written_by_sqb(states[r])
        else _read_bound_state(states[r], get_shown(project.nodes[n], refs), session.lake, pointers[r])
        for n, r in prior_relations.items()
        if r in states
    }
    renamed = {n: _rename_sources(s, project, by_logical) for n, s in bound_states.items() if s is not None}
    current = {project.nodes[n].relation: build_relation_state(s) for n, s in renamed.items()}
    priors = {n: PriorVersion(prior_relations[n], _get_cloned_snapshot(s)) for n, s in renamed.items()}
    observed = replace(observed, relations={**lake_state.observed.relations, **current}, priors=priors)
    prior_states = {prior_relations[n]: s for n, s in renamed.items()}
    return replace(lake_state, observed=observed, states={**lake_state.states, **prior_states}, priors=renamed)


def _get_cloned_snapshot(state: TableState) -> int | None:
    """The snapshot that a new version begins as; None where there are no rows of sqb's to begin with."""
    return state.snapshot_id if not state.is_view and state.identity.content else None


def _find_adopted(session: EnvironmentSession, lake_state: LakeState) -> dict[str, Relation]:
    """Tables that were adopted for versions which the project has left before a build has shown them: what they hold
    is what the versions of now begin with."""
    if session.environment is not None and session.environment.checkpoint:
        return {}
    names = [n for n in session.stale if get_shown(session.direct.nodes[n], session.refs) is None]
    missing = [n for n in names if session.project.nodes[n].relation not in lake_state.observed.relations]
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


def _read_bound_state(state: TableState, ref: Ref | None, lake: Tables, pointer: Pointer) -> TableState | None:
    """A table that others have written to, as the environment shows it; None where it cannot be gone back to."""
    bound = lake.read_state_at_version(pointer, str(ref.binding.snapshot_id)) if ref is not None else None
    if bound is None or bound.schema_id != state.schema_id or not bound.identity.content:
        return None
    return replace(bound, drifted=False, properties={}, last_identity=CommitIdentity())


def _restore_checks(session: EnvironmentSession, lake_state: LakeState) -> LakeState:
    """The look in which checks have passed that passed in this environment; others may have asked others since."""
    relations = dict(lake_state.observed.relations)
    for name, ref in session.refs.items():
        node = session.project.nodes.get(name)
        current = relations.get(node.relation) if node is not None else None
        if node is None or current is None or not ref.checks or ref.binding.relation != node.relation:
            continue
        if current.version.snapshot_id == ref.binding.snapshot_id and not current.is_view:
            relations[node.relation] = replace(current, checks=ref.checks)
    return replace(lake_state, observed=replace(lake_state.observed, relations=relations))


def _rename_sources(state: TableState, project: Project, by_logical: Mapping[Relation, str]) -> TableState:
    sources = parse_sources(state.identity.sources) or {}
    renamed = {resolve_input_name(key, project, by_logical): version for key, version in sources.items()}
    return replace(state, identity=replace(state.identity, sources=encode_sources(renamed)))
