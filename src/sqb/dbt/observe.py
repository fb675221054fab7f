"""Looking at the lake for a dbt project: what stands at its relations, at which versions, and how old its sources are.

Nothing here starts Java but the question for the newest row of a source, where `loaded_at_field` asks it and neither
the table's statistics nor an earlier answer tell.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqb.build.freshness import Session, observe
from sqb.build.observe import Look
from sqb.compiled import External, Project
from sqb.compiled_sources import DeclaredSource, SourceQuery, Watch
from sqb.dbt.defer import Deferred
from sqb.dbt.stored import stored_nodes
from sqb.dbt.values import DbtObserved, DbtProject, DbtSeen, DbtSource, DbtStored, DbtVersion
from sqb.identity import digest
from sqb.lake.iceberg import IcebergLake
from sqb.lake.port import STATE_TABLES, Pointer, TableState
from sqb.lake.state import refuse_newer_state
from sqb.names import At, Relation, quote
from sqb.plan.freshness import Observation
from sqb.plan.observed import Observed
from sqb.sql.spans import Reference

_COLUMN = re.compile(r"[A-Za-z_]\w*")


def look_at_dbt(
    project: DbtProject, lake: IcebergLake, session: Session | None = None, deferred: Deferred | None = None
) -> DbtObserved:
    """What is known of the nodes and sources of a dbt project; without `session` nobody is asked for newest rows.

    With `deferred` some nodes are read elsewhere, and what is known of them is what stands there.
    """
    standing = _look(project, lake, deferred.relations.values() if deferred is not None else ())
    stored = stored_nodes(project, lake.fingerprints(project.schemas).values())
    seen = {
        node.unique_id: standing.seen(node.relation, stored.get(node.unique_id))
        for node in project.nodes.values()
        if node.relation is not None
    }
    if deferred is not None:
        away = {i: r for i, r in deferred.relations.items() if i in seen and (deferred.favored or not seen[i].exists)}
        seen |= {unique_id: _seen_elsewhere(standing.seen(relation)) for unique_id, relation in away.items()}
    sources, notices = _sources(project, lake, standing, session)
    return DbtObserved(stored, {**seen, **sources}, notices=notices)


def _seen_elsewhere(seen: DbtSeen) -> DbtSeen:
    """What is read elsewhere; where nobody can tell its version it is another one each time."""
    return DbtSeen(True, version=seen.version or DbtVersion("run", os.urandom(8).hex()))


@dataclass(frozen=True, slots=True)
class _Standing:
    """The relations of the catalog that matter, by their names in small letters."""

    catalog: str
    pointers: Mapping[str, Pointer]
    states: Mapping[Relation, TableState]

    def pointer(self, relation: Relation) -> Pointer | None:
        return self.pointers.get(str(relation).lower())

    def state(self, relation: Relation) -> TableState | None:
        found = self.pointer(relation)
        return self.states.get(found.relation) if found is not None else None

    def seen(self, relation: Relation, stored: DbtStored | None = None) -> DbtSeen:
        """What stands at a relation; `stored` may know what rows a table has."""
        state = self.state(relation)
        if state is None:
            return DbtSeen(False)
        if state.is_view:
            return DbtSeen(True, True, self._beneath(state))
        content = None if state.drifted else state.identity.get("sqb.content")
        version = _version(state, content)
        if stored is not None and stored.content is not None and version.is_same(["snapshot", stored.snapshot]):
            version = _version(state, stored.content)
        return DbtSeen(True, version=version)

    def _beneath(self, view: TableState) -> DbtVersion | None:
        """The version of what is beneath a view that sqb made; of another one nobody can tell."""
        try:
            read = json.loads(view.identity.get("sqb.sources", "null"))
        except ValueError:
            read = None
        if not isinstance(read, dict):
            return None
        states = ((key, self.state(Relation.parse(key))) for key in sorted(read))
        parts = [f"{key} {(v.content or v.value)}" for key, s in states if s is not None and (v := _table_version(s))]
        return DbtVersion("beneath", digest("view", view.identity.get("sqb.local_hash", ""), *parts))


def _look(project: DbtProject, lake: IcebergLake, elsewhere: Iterable[Relation]) -> _Standing:
    pointers: dict[str, Pointer] = {}
    for relation, pointer in lake.pointers().items():
        pointers.setdefault(str(relation).lower(), pointer)
    read = [n.relation for n in project.nodes.values() if n.relation is not None]
    read += [*(s.relation for s in project.sources.values()), *elsewhere]
    state_tables = [Relation(schema, name) for schema in project.schemas for name in STATE_TABLES]
    wanted = [pointers[key] for r in (*read, *state_tables) if (key := str(r).lower()) in pointers]
    states = dict(lake.tables(wanted))
    for relation in state_tables:
        if relation in states:
            refuse_newer_state(relation, states[relation].properties)
    # What views of sqb's are made of, so that they have versions too.
    beneath = {key for s in states.values() if s.is_view for key in _names_beneath(s)}
    more = [pointers[key.lower()] for key in sorted(beneath) if key.lower() in pointers]
    states |= lake.tables(p for p in more if p.relation not in states)
    return _Standing(lake.name, pointers, states)


def _names_beneath(view: TableState) -> Iterable[str]:
    try:
        read = json.loads(view.identity.get("sqb.sources", "{}"))
        return [key for key in read if " " not in key]
    except (ValueError, TypeError):
        return ()


def _table_version(state: TableState) -> DbtVersion:
    return _version(state, None if state.drifted else state.identity.get("sqb.content"))


def _version(state: TableState, content: str | None) -> DbtVersion:
    first = state.same_rows[-1] if state.same_rows else state.snapshot_id
    same = tuple(str(snapshot) for snapshot in state.same_rows)
    return DbtVersion("snapshot", str(first) if first is not None else "empty", same, content)


# --- sources ----------------------------------------------------------------------------------------------------------


def _sources(
    project: DbtProject, lake: IcebergLake, standing: _Standing, session: Session | None
) -> tuple[dict[str, DbtSeen], tuple[str, ...]]:
    now = time.time()
    asked = [s for s in project.sources.values() if _is_asked(s) and _is_table(standing.state(s.relation))]
    told, notices = _newest(asked, lake, standing, session) if asked else ({}, [])
    found = {s.unique_id: _source_seen(s, standing, told.get(s.unique_id), now) for s in project.sources.values()}
    return found, tuple(notices)


def _is_table(state: TableState | None) -> bool:
    return state is not None and not state.is_view


def _is_asked(source: DbtSource) -> bool:
    """Whether the newest row of a source tells how fresh it is; without limits for its age, versions tell enough."""
    return source.loaded_at_field is not None and (source.warn_after is not None or source.error_after is not None)


def _source_seen(source: DbtSource, standing: _Standing, newest: Observation | None, now: float) -> DbtSeen:
    seen, state = standing.seen(source.relation), standing.state(source.relation)
    if newest is not None:
        age = now - newest.moment if newest.moment is not None else None
        return DbtSeen(True, version=DbtVersion("value", newest.value), age=age)
    moment = state.rows_ms / 1000 if state is not None and state.rows_ms is not None and not state.is_view else None
    # Where rows say themselves how old they are, the time of a commit says nothing.
    told = moment is not None and source.loaded_at_field is None
    return DbtSeen(seen.exists, seen.is_view, seen.version, now - moment if told and moment is not None else None)


def _newest(
    sources: list[DbtSource], lake: IcebergLake, standing: _Standing, session: Session | None
) -> tuple[dict[str, Observation], list[str]]:
    """The newest rows of sources, and of which it could not be told, as notices."""
    declared = {s.unique_id: _declared(s) for s in sources}
    pointers = {s.unique_id: p for s in sources if (p := standing.pointer(s.relation)) is not None}
    externals = {name: External(name, d.relation, True, d.at) for name, d in declared.items()}
    look = Look(
        Observed(),
        standing.states,
        {name: pointer.relation for name, pointer in pointers.items()},
        locations={name: pointer.location for name, pointer in pointers.items()},
        catalog=standing.catalog,
    )
    project = Project("dbt", "", {}, externals, sources=declared)
    names = {s.unique_id: s.name for s in sources}
    if session is not None:
        told = observe(project, lake, look, declared, session)
        return dict(told.seen), [e.message.replace(name, names[name]) for name, e in told.failed.items()]
    found: dict[str, Observation] = {}
    for name in declared:
        with suppress(_NobodyToAsk):
            found |= observe(project, lake, look, [name], _nobody).seen
    unknown = [f"nobody was asked how fresh {names[name]} is" for name in declared if name not in found]
    return found, unknown


class _NobodyToAsk(Exception):
    """Only Spark would tell, and there is none."""


def _nobody() -> Any:
    raise _NobodyToAsk


def _declared(source: DbtSource) -> DeclaredSource:
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
