"""Tables that were built before there were environments, taken into the baseline with all that they hold.

Each becomes the table of the version that the project has: a clone, which copies no rows, under the names of today. It
says what it was made from as the old table did, so the next build treats it as it would have treated the old one: what
is unchanged is not run, a log keeps its rows and a history its intervals. Only then the old table leaves its
name, where a view of the environment is to have it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqb.build.observe import said_of
from sqb.build.run_id import new_run_id
from sqb.build.steps import Announce, silent
from sqb.environments.entering import Entered, baseline_of, enter
from sqb.environments.moving import locked
from sqb.environments.pairing import pair
from sqb.environments.port import Store
from sqb.lake.iceberg import IcebergLake
from sqb.lake.port import Pointer, TableState, conflict
from sqb.names import Relation
from sqb.workspace import Workspace

_SAID = ("sqb.checks", "sqb.figures")


@dataclass(frozen=True, slots=True)
class Adopted:
    """What became of one node's table or view."""

    name: str
    relation: Relation
    # The table that it is in the environment; None for one that stays as it is.
    table: Relation | None
    # It has left its name to the view of the environment.
    gave_way: bool = False
    # Why it stays as it is.
    why_not: str = ""


def adopt_tables(
    workspace: Workspace,
    store: Store,
    lake: IcebergLake,
    owner: str,
    dry_run: bool = False,
    take_over: bool = False,
    announce: Announce = silent,
) -> list[Adopted]:
    """Take what direct builds left into the baseline; nothing is built."""
    name = baseline_of(workspace)
    if dry_run:
        return list(_decide(enter(workspace, name, store), lake))
    with locked(store, lake, name, owner, take_over, announce):
        entered = enter(workspace, name, store)
        decided = list(_decide(entered, lake))
        pair(store, lake)
        # All tables first: what gives way before its readers' tables are there would be missed.
        for one in decided:
            if one.table is not None:
                _clone(entered, lake, one, announce)
        for one in decided:
            if one.gave_way:
                _give_way(lake, one)
    return decided


def _decide(entered: Entered, lake: IcebergLake) -> Iterator[Adopted]:
    pointers = lake.pointers()
    there = {n.name: pointers[n.relation] for n in entered.direct if n.relation in pointers}
    states = lake.tables(there.values())
    for node in entered.direct:
        pointer = there.get(node.name)
        if pointer is None:
            continue
        state, in_the_way = states[node.relation], entered.view_of(node.relation) == node.relation
        if pointer.is_view and state.properties.get("sqb.environment"):
            continue
        why_not = _why_not(node.name, node.kind, pointer, state)
        table = entered.project.nodes[node.name].relation
        if why_not:
            yield Adopted(node.name, node.relation, None, why_not=why_not)
        elif node.kind == "view":
            yield Adopted(node.name, node.relation, None, in_the_way)
        else:
            yield Adopted(node.name, node.relation, table, in_the_way)


def _why_not(name: str, kind: str, pointer: Pointer, state: TableState) -> str:
    if {**state.properties, **state.identity}.get("sqb.model") not in (None, name) or not state.identity:
        return "sqb has not built it"
    if pointer.is_view != (kind == "view"):
        return f"it is a {'view' if pointer.is_view else 'table'}, and the model is of kind {kind}"
    if state.drifted:
        return "somebody else has written to it"
    if kind != "view" and (state.snapshot_id is None or "sqb.content" not in state.identity):
        return "its commit does not say what it is"
    return ""


def _clone(entered: Entered, lake: IcebergLake, one: Adopted, announce: Announce) -> None:
    assert one.table is not None
    pointers = lake.pointers()
    if one.table in pointers:
        # A command that was cut off has come so far, or a build has made it.
        return
    state = lake.tables([pointers[one.relation]])[one.relation]
    assert state.snapshot_id is not None
    said = {key: said_of(state, key) for key in _SAID if said_of(state, key)}
    summary = {**_renamed(state.identity, entered), **said}
    lake.clone(one.relation, state.snapshot_id, one.table, summary, None, new_run_id())
    announce("version begun", one.name)


def _renamed(identity: Mapping[str, str], entered: Entered) -> dict[str, str]:
    """What a table was made from, with models at the tables of their versions."""
    names = {str(n.relation): str(entered.project.nodes[n.name].relation) for n in entered.direct}
    sources = json.loads(identity.get("sqb.sources", "{}"))
    renamed = {names.get(key, key): version for key, version in sources.items()}
    return {**identity, "sqb.sources": json.dumps(renamed, separators=(",", ":"), sort_keys=True)}


def _give_way(lake: IcebergLake, one: Adopted) -> None:
    """Take an old relation out of the catalog, if it is what was cloned; its files stay for the clone."""
    pointers = lake.pointers()
    pointer = pointers.get(one.relation)
    if pointer is None:
        return
    if one.table is not None:
        states = lake.tables([pointer, pointers[one.table]])
        if states[one.relation].snapshot_id != states[one.table].snapshot_id:
            raise conflict(one.relation)
    if not lake.forget(pointer):
        raise conflict(one.relation)
