"""Observes the lake for a dbt project: its current relations, their versions, and the age of its sources.

Nothing here starts Java but the question for the newest row of a source, where `loaded_at_field` asks it and neither
the table's statistics nor an earlier answer tell.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqb.build.observe.lake import LakeState
from sqb.build.observe.sources import Session, observe_names
from sqb.compile.model import External, Project
from sqb.compile.source_model import DeclaredSource, SourceQuery, Watch
from sqb.dbt.defer import DeferredRelations
from sqb.dbt.fingerprints import decode_nodes
from sqb.dbt.model import DbtObserved, DbtProject, DbtRelationState, DbtSource, DbtStored, DbtVersion
from sqb.identity import digest
from sqb.lake.port import STATE_TABLES, Lake, Pointer, TableState
from sqb.lake.state.rows import refuse_newer_state
from sqb.names import At, Relation, quote
from sqb.plan.freshness import Observation
from sqb.plan.observed import Observed
from sqb.plan.recorded.versions import parse_sources
from sqb.sql.text.spans import Reference

_COLUMN = re.compile(r"[A-Za-z_]\w*")


def observe_dbt(
    project: DbtProject, lake: Lake, session: Session | None = None, deferred: DeferredRelations | None = None
) -> DbtObserved:
    """What is known of the nodes and sources of a dbt project; without `session` newest rows are not read.

    With `deferred` some nodes are read elsewhere, and are observed there.
    """
    current = _read_relations(project, lake, deferred.relations.values() if deferred is not None else ())
    stored = decode_nodes(project, lake.state.read_fingerprints(project.schemas).values())
    states = {
        node.unique_id: current.observe_relation(node.relation, stored.get(node.unique_id))
        for node in project.nodes.values()
        if node.relation is not None
    }
    if deferred is not None:
        elsewhere = {
            i: r for i, r in deferred.relations.items() if i in states and (deferred.favored or not states[i].exists)
        }
        states |= {
            unique_id: _build_deferred_state(current.observe_relation(relation))
            for unique_id, relation in elsewhere.items()
        }
    sources, notices = _observe_sources(project, lake, current, session)
    return DbtObserved(stored, {**states, **sources}, notices=notices)


def _build_deferred_state(state: DbtRelationState) -> DbtRelationState:
    """The state of what is read elsewhere; an unknown version differs each time."""
    return DbtRelationState(True, version=state.version or DbtVersion("run", os.urandom(8).hex()))


@dataclass(frozen=True, slots=True)
class _CurrentRelations:
    """The relations of the catalog that matter, by their names in small letters."""

    catalog: str
    pointers: Mapping[str, Pointer]
    states: Mapping[Relation, TableState]

    def get_pointer(self, relation: Relation) -> Pointer | None:
        return self.pointers.get(str(relation).lower())

    def get_state(self, relation: Relation) -> TableState | None:
        pointer = self.get_pointer(relation)
        return self.states.get(pointer.relation) if pointer is not None else None

    def observe_relation(self, relation: Relation, stored: DbtStored | None = None) -> DbtRelationState:
        """Observe a relation; `stored` may know the checksum of its rows."""
        state = self.get_state(relation)
        if state is None:
            return DbtRelationState(False)
        if state.is_view:
            return DbtRelationState(True, True, self._compute_view_version(state))
        content = None if state.drifted else state.identity.content or None
        version = _build_version(state, content)
        if stored is not None and stored.content is not None and version.is_same(["snapshot", stored.snapshot]):
            version = _build_version(state, stored.content)
        return DbtRelationState(True, version=version)

    def _compute_view_version(self, view: TableState) -> DbtVersion | None:
        """The version of what is beneath a view that sqb made; None for other views."""
        read = parse_sources(view.identity.sources)
        if read is None:
            return None
        states = ((key, self.get_state(Relation.parse(key))) for key in sorted(read))
        parts = [
            f"{key} {(v.content or v.value)}" for key, s in states if s is not None and (v := _get_table_version(s))
        ]
        return DbtVersion("beneath", digest("view", view.identity.local_hash, *parts))


def _read_relations(project: DbtProject, lake: Lake, elsewhere: Iterable[Relation]) -> _CurrentRelations:
    pointers: dict[str, Pointer] = {}
    for relation, pointer in lake.list_pointers().items():
        pointers.setdefault(str(relation).lower(), pointer)
    read = [n.relation for n in project.nodes.values() if n.relation is not None]
    read += [*(s.relation for s in project.sources.values()), *elsewhere]
    state_tables = [Relation(schema, name) for schema in project.schemas for name in STATE_TABLES]
    selected = [pointers[key] for r in (*read, *state_tables) if (key := str(r).lower()) in pointers]
    states = dict(lake.read_tables(selected))
    for relation in state_tables:
        if relation in states:
            refuse_newer_state(relation, states[relation].properties)
    # What views of sqb's are made of, so that they have versions too.
    inputs = {key for s in states.values() if s.is_view for key in _list_view_inputs(s)}
    more = [pointers[key.lower()] for key in sorted(inputs) if key.lower() in pointers]
    states |= lake.read_tables(p for p in more if p.relation not in states)
    return _CurrentRelations(lake.name, pointers, states)


def _list_view_inputs(view: TableState) -> Iterable[str]:
    return [key for key in parse_sources(view.identity.sources) or {} if " " not in key]


def _get_table_version(state: TableState) -> DbtVersion:
    return _build_version(state, None if state.drifted else state.identity.content or None)


def _build_version(state: TableState, content: str | None) -> DbtVersion:
    first = state.same_rows[-1] if state.same_rows else state.snapshot_id
    same = tuple(str(snapshot) for snapshot in state.same_rows)
    return DbtVersion("snapshot", str(first) if first is not None else "empty", same, content)


# --- sources ----------------------------------------------------------------------------------------------------------


def _observe_sources(
    project: DbtProject, lake: Lake, current: _CurrentRelations, session: Session | None
) -> tuple[dict[str, DbtRelationState], tuple[str, ...]]:
    now = time.time()
    measured = [
        s for s in project.sources.values() if _needs_newest_row(s) and _is_table(current.get_state(s.relation))
    ]
    newest, notices = _read_newest_rows(measured, lake, current, session) if measured else ({}, [])
    states = {s.unique_id: _observe_source(s, current, newest.get(s.unique_id), now) for s in project.sources.values()}
    return states, tuple(notices)


def _is_table(state: TableState | None) -> bool:
    return state is not None and not state.is_view


def _needs_newest_row(source: DbtSource) -> bool:
    """Whether the newest row of a source tells how fresh it is; without limits for its age, versions tell enough."""
    return source.loaded_at_field is not None and (source.warn_after is not None or source.error_after is not None)


def _observe_source(
    source: DbtSource, current: _CurrentRelations, newest: Observation | None, now: float
) -> DbtRelationState:
    observed, state = current.observe_relation(source.relation), current.get_state(source.relation)
    if newest is not None:
        age = now - newest.moment if newest.moment is not None else None
        return DbtRelationState(True, version=DbtVersion("value", newest.value), age=age)
    moment = state.rows_ms / 1000 if state is not None and state.rows_ms is not None and not state.is_view else None
    # Where rows say themselves how old they are, the time of a commit says nothing.
    has_age = moment is not None and source.loaded_at_field is None
    return DbtRelationState(
        observed.exists, observed.is_view, observed.version, now - moment if has_age and moment is not None else None
    )


def _read_newest_rows(
    sources: list[DbtSource], lake: Lake, current: _CurrentRelations, session: Session | None
) -> tuple[dict[str, Observation], list[str]]:
    """Read the newest rows of sources; failures are notices."""
    declared = {s.unique_id: _declare_source(s) for s in sources}
    pointers = {s.unique_id: p for s in sources if (p := current.get_pointer(s.relation)) is not None}
    externals = {name: External(name, d.relation, True, d.at) for name, d in declared.items()}
    lake_state = LakeState(
        Observed(),
        current.states,
        {name: pointer.relation for name, pointer in pointers.items()},
        locations={name: pointer.location for name, pointer in pointers.items()},
        catalog=current.catalog,
    )
    project = Project("dbt", "", {}, externals, sources=declared)
    names = {s.unique_id: s.name for s in sources}
    if session is not None:
        result = observe_names(project, lake, lake_state, declared, session)
        return dict(result.observations), [e.message.replace(name, names[name]) for name, e in result.failed.items()]
    observations: dict[str, Observation] = {}
    for name in declared:
        with suppress(_NoSession):
            observations |= observe_names(project, lake, lake_state, [name], _refuse_session).observations
    unknown = [f"the freshness of {names[name]} was not read" for name in declared if name not in observations]
    return observations, unknown


class _NoSession(Exception):
    """A query needs Spark, and there is no session."""


def _refuse_session() -> Any:
    raise _NoSession


def _declare_source(source: DbtSource) -> DeclaredSource:
    """A source of dbt as one of sqb's, that is asked for the greatest value of a column or expression."""
    field = source.loaded_at_field or ""
    head = f"SELECT max({quote(field) if _COLUMN.fullmatch(field) else field}) FROM "
    table = quote(source.unique_id)
    where = f" WHERE {source.filter}\n" if source.filter else ""
    slot = Reference((source.unique_id,), len(head), len(head) + len(table))
    query = SourceQuery(f"{head}{table}{where}", (slot,), (source.unique_id,), digest(head, where))
    column = field if _COLUMN.fullmatch(field) else None
    watch = Watch(
        "column" if column is not None else "sql",
        None,
        column,
        source.filter,
        query,
        None,
        source.warn_after,
        source.error_after,
        digest("dbt", head, where)[:12],
        At(source.path),
    )
    return DeclaredSource(source.unique_id, source.relation, At(source.path), watch=watch)
