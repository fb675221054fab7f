"""Adopts tables that direct builds made before the project had environments into the baseline, with all their rows.

Each becomes the table of the version that the project has: a clone, which copies no rows, under the current name. It
keeps the identity of the old table, so the next build treats it as it would have treated the old one: what
is unchanged is not run, a log keeps its rows and a history its intervals. Only then the old table leaves its
name, where a view of the environment is to have it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqb.build.failpoints import Announce, ignore_step
from sqb.build.incremental.clone_states import clone_states
from sqb.build.observe.lake import read_passed_checks
from sqb.build.result import generate_run_id
from sqb.environments.session import EnvironmentSession, get_baseline, open_session
from sqb.environments.state.pairing import pair_lake
from sqb.environments.state.store import Store
from sqb.environments.view_properties import ENVIRONMENT
from sqb.environments.views import lock_environment
from sqb.lake.port import Lake, Pointer, TableState, build_conflict
from sqb.names import Relation
from sqb.plan.recorded.commit_identity import MODEL, CommitIdentity
from sqb.plan.recorded.versions import encode_sources, parse_sources
from sqb.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Adoption:
    """The adoption of one node's table or view."""

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
    lake: Lake,
    owner: str,
    dry_run: bool = False,
    take_over: bool = False,
    announce: Announce = ignore_step,
) -> list[Adoption]:
    """Adopt the tables of direct builds into the baseline; nothing is built."""
    name = get_baseline(workspace)
    if dry_run:
        return list(_plan_adoptions(open_session(workspace, name, store), lake))
    with lock_environment(store, lake, name, owner, take_over, announce):
        session = open_session(workspace, name, store)
        adoptions = list(_plan_adoptions(session, lake))
        pair_lake(store, lake)
        # All tables first: what gives way before its readers' tables are there would be missed.
        for adoption in adoptions:
            if adoption.table is not None:
                _clone_table(session, lake, adoption, announce)
        for adoption in adoptions:
            if adoption.gave_way:
                _remove_relation(lake, adoption)
                announce("views moved", adoption.name)
    return adoptions


def _plan_adoptions(session: EnvironmentSession, lake: Lake) -> Iterator[Adoption]:
    pointers = lake.list_pointers()
    present = {n.name: pointers[n.relation] for n in session.direct if n.relation in pointers}
    states = lake.read_tables(present.values())
    for node in session.direct:
        pointer = present.get(node.name)
        if pointer is None:
            continue
        state, in_the_way = states[node.relation], session.get_view(node.relation) == node.relation
        if pointer.is_view and state.properties.get(ENVIRONMENT):
            continue
        why_not = _explain_refusal(node.name, node.kind, pointer, state)
        table = session.project.nodes[node.name].relation
        if why_not:
            yield Adoption(node.name, node.relation, None, why_not=why_not)
        elif node.kind == "view":
            yield Adoption(node.name, node.relation, None, in_the_way)
        else:
            yield Adoption(node.name, node.relation, table, in_the_way)


def _explain_refusal(name: str, kind: str, pointer: Pointer, state: TableState) -> str:
    model = state.identity.model or state.properties.get(MODEL)
    if (model and model != name) or not state.identity:
        return "sqb has not built it"
    if pointer.is_view != (kind == "view"):
        return f"it is a {'view' if pointer.is_view else 'table'}, and the model is of kind {kind}"
    if state.drifted:
        return "another writer has changed it"
    if kind != "view" and (state.snapshot_id is None or not state.identity.content):
        return "its commit has no sqb identity"
    return ""


def _clone_table(session: EnvironmentSession, lake: Lake, adoption: Adoption, announce: Announce) -> None:
    """Clone the table of a model to the table of its version, unless a command before has done so."""
    assert adoption.table is not None
    pointers = lake.list_pointers()
    state = lake.read_tables([pointers[adoption.relation]])[adoption.relation]
    assert state.snapshot_id is not None
    if adoption.table in pointers:
        # A command that was cut off has come so far, or a build has made it.
        existing = lake.read_tables([pointers[adoption.table]])[adoption.table]
        if (
            not _is_unused_clone(session, lake, adoption, existing.snapshot_id)
            or existing.snapshot_id == state.snapshot_id
        ):
            return
        if not lake.drop_if_current(pointers[adoption.table]):
            raise build_conflict(adoption.table)
    identity = _rename_sources(state.identity, session).merge(read_passed_checks(state))
    run_id = generate_run_id()
    states = clone_states(lake, adoption.relation, state.identity, adoption.table, run_id)
    if states:
        announce("state published", adoption.name)
    properties = replace(identity, adopted=str(adoption.relation), group_state=states).to_properties()
    lake.clone(adoption.relation, state.snapshot_id, adoption.table, properties, None, run_id)
    announce("version begun", adoption.name)


def _is_unused_clone(session: EnvironmentSession, lake: Lake, adoption: Adoption, snapshot_id: int | None) -> bool:
    """Whether a table is an outdated clone of the adopted table that no environment shows."""
    store = session.store
    shown = {r.binding.relation for name in store.read_environments() for r in store.read_refs(name).values()}
    return adoption.table not in shown and snapshot_id in [s.id for s in lake.read_lineage(adoption.relation)]


def _rename_sources(identity: CommitIdentity, session: EnvironmentSession) -> CommitIdentity:
    """Rename the recorded inputs of a table to the tables of the models' versions."""
    names = {n.get_input_key(): str(session.project.nodes[n.name].relation) for n in session.direct}
    sources = parse_sources(identity.sources) or {}
    renamed = {names.get(key, key): version for key, version in sources.items()}
    return replace(identity, sources=encode_sources(renamed))


def _remove_relation(lake: Lake, adoption: Adoption) -> None:
    """Take an old relation out of the catalog, if it is what was cloned; its files stay for the clone."""
    pointers = lake.list_pointers()
    pointer = pointers.get(adoption.relation)
    if pointer is None:
        return
    if adoption.table is not None:
        states = lake.read_tables([pointer, pointers[adoption.table]])
        if states[adoption.relation].snapshot_id != states[adoption.table].snapshot_id:
            raise build_conflict(adoption.relation)
    if not lake.drop_if_current(pointer):
        raise build_conflict(adoption.relation)
