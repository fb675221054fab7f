"""Swaps the views of an environment, all at once, and updates the store.

What it is about to become is written down first. A command that ends in the middle leaves that behind, and whoever
works on the environment next carries it out: everything it needs had been made before.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime

from sqb.build.failpoints import Announce, ignore_step
from sqb.environments.model import Binding, Checkpoint, Environment, Journal, Move, Ref
from sqb.environments.naming import build_logical_relation
from sqb.environments.remove_views import check_not_baseline, list_dependents, remove_environment
from sqb.environments.state.pairing import pair_lake, read_pairing
from sqb.environments.state.store import Store
from sqb.environments.view_properties import BINDING, ENVIRONMENT, SCOPE, STATE
from sqb.errors.environments import ViewTaken
from sqb.lake.port import Lake, Pointer, TableState, ViewSwap
from sqb.names import Relation
from sqb.plan.recorded.commit_identity import CommitIdentity


@contextmanager
def lock_environment(
    store: Store, lake: Lake, name: str, owner: str, take_over: bool = False, announce: Announce = ignore_step
) -> Iterator[str]:
    """Hold an environment's lock, with what an earlier command left undone finished; gives the token.

    Refused where the lake's environments are kept in another state.
    """
    read_pairing(store, lake).check_match()
    with store.lock(name, owner, take_over) as token:
        finish_journal(store, lake, name, announce)
        yield token


def drop_environment(
    store: Store,
    lake: Lake,
    name: str,
    owner: str,
    take_over: bool = False,
    force: bool = False,
    announce: Announce = ignore_step,
) -> int:
    """Remove an environment; how many views it had. With `force` also one that others began as."""
    with ExitStack() as locks:
        names = {name, *list_dependents(name, store.read_environments())} if force else {name}
        # Always in the same order: two commands never wait for each other.
        tokens = {
            n: locks.enter_context(lock_environment(store, lake, n, owner, take_over, announce)) for n in sorted(names)
        }
        known = store.read_environments()
        check_not_baseline(name, known, force and names >= {*list_dependents(name, known)})
        pair_lake(store, lake)
        return remove_environment(store, lake, name, tokens[name], announce)


def swap_views(
    store: Store,
    lake: Lake,
    environment: Environment,
    before: Mapping[str, Ref],
    after: Mapping[str, Ref],
    token: str,
    unsuffixed: str | None,
    checkpoint: Checkpoint | None = None,
    announce: Announce = ignore_step,
) -> int:
    """Make an environment show `after` instead of `before`; how many of its views are others now."""
    pair_lake(store, lake)
    moves = plan_moves(lake, environment.name, before, after, unsuffixed)
    journal = Journal(create_id(), environment, after, moves, checkpoint)
    store.begin_journal(journal, token)
    announce("environment begun", environment.name)
    _apply_journal(store, lake, journal, announce)
    return len(moves)


def finish_journal(store: Store, lake: Lake, name: str, announce: Announce = ignore_step) -> bool:
    """Carry out what a command left undone that ended too early; whether there was anything. Needs the lock."""
    journal = store.read_journal(name)
    if journal is None:
        return False
    pointers = lake.list_pointers()
    current = [pointers[m.relation] for m in journal.moves if m.relation in pointers]
    states = lake.read_tables(current) if current else {}
    shown = {r: s.properties for r, s in states.items()}
    rest, done = [], {}
    for view_move in journal.moves:
        pointer = pointers.get(view_move.relation)
        binding = journal.refs[view_move.name].binding if view_move.name is not None else None
        if pointer is None and binding is None:
            continue
        if pointer is not None and binding is not None and _is_view_of(states[view_move.relation], binding, name):
            done[binding.name] = pointer.location
            continue
        if pointer is not None:
            _check_not_taken(pointer, shown[view_move.relation], name)
        rest.append(replace(view_move, before=pointer.location if pointer is not None else ""))
    _apply_journal(store, lake, replace(journal, moves=tuple(rest)), announce, done)
    return True


def plan_moves(
    lake: Lake, environment: str, before: Mapping[str, Ref], after: Mapping[str, Ref], unsuffixed: str | None
) -> tuple[Move, ...]:
    """The views that differ between what an environment shows and what it is to show; removed ones first."""
    pointers = lake.list_pointers()
    planned = {_get_view(r.binding, environment, unsuffixed): name for name, r in after.items() if r.binding.relation}
    shown = {_get_view(r.binding, environment, unsuffixed): r for r in before.values() if r.binding.relation}
    check_not_taken(lake, environment, (*planned, *shown), shown)
    removed = (Move(r, None, pointers[r].location) for r in sorted(shown.keys() - planned.keys()) if r in pointers)
    return (*removed, *_iter_created(planned, shown, after, pointers))


def find_misplaced_views(
    lake: Lake, environment: str, refs: Mapping[str, Ref], unsuffixed: str | None
) -> dict[str, Relation]:
    """The views of an environment that are gone from the catalog or were replaced, by the nodes' names."""
    pointers = lake.list_pointers()
    views = {
        n: _get_view(r.binding, environment, unsuffixed) for n, r in refs.items() if r.binding.relation is not None
    }
    return {n: view for n, view in views.items() if view not in pointers or not _is_unchanged(pointers[view], refs[n])}


def _is_view_of(state: TableState, binding: Binding, environment: str) -> bool:
    """Whether a view is that of the environment on this binding; a view that another writer altered is not."""
    properties = state.properties
    return not state.drifted and properties.get(BINDING) == binding.id and properties.get(ENVIRONMENT) == environment


def _iter_created(
    planned: Mapping[Relation, str],
    shown: Mapping[Relation, Ref],
    after: Mapping[str, Ref],
    pointers: Mapping[Relation, Pointer],
) -> Iterable[Move]:
    for relation, name in sorted(planned.items()):
        pointer, ref = pointers.get(relation), shown.get(relation)
        same = ref is not None and _view_content(ref.binding) == _view_content(after[name].binding)
        if not same or pointer is None or not _is_unchanged(pointer, ref):
            yield Move(relation, name, pointer.location if pointer is not None else "")


def _view_content(binding: Binding) -> tuple[str, str, str]:
    return (binding.text, binding.columns, binding.description)


def _get_view(binding: Binding, environment: str, unsuffixed: str | None) -> Relation:
    return build_logical_relation(binding.logical, environment, unsuffixed)


def _is_unchanged(pointer: Pointer, ref: Ref | None) -> bool:
    return ref is not None and pointer.is_view and bool(ref.location) and pointer.location == ref.location


def check_not_taken(lake: Lake, environment: str, views: Iterable[Relation], shown: Mapping[Relation, Ref]) -> None:
    """Raise ViewTaken for all relations at the names of the views that the environment has not made."""
    pointers = lake.list_pointers()
    foreign = [
        pointers[r] for r in dict.fromkeys(views) if r in pointers and not _is_unchanged(pointers[r], shown.get(r))
    ]
    states = lake.read_tables(foreign) if foreign else {}
    taken = [p for p in foreign if not _belongs_to(environment, p, states[p.relation].properties)]
    if taken:
        raise _build_taken_error(taken, environment)


def _belongs_to(environment: str, pointer: Pointer, properties: Mapping[str, str]) -> bool:
    """Whether a view is the environment's; one that another writer altered still is."""
    return pointer.is_view and properties.get(ENVIRONMENT) == environment


def _check_not_taken(pointer: Pointer, properties: Mapping[str, str], environment: str) -> None:
    """Refuse to replace what the environment has not made."""
    if not _belongs_to(environment, pointer, properties):
        raise _build_taken_error([pointer], environment)


def _build_taken_error(pointers: Sequence[Pointer], environment: str) -> ViewTaken:
    hint = (
        "rename or drop it, or give the models another schema or the environment another name;"
        " `sqb state adopt` takes tables that sqb built into the baseline"
    )
    evidence = [f"{p.relation} is {'a view' if p.is_view else 'a table'}" for p in sorted(pointers, key=str)]
    if len(evidence) == 1:
        return ViewTaken(f"{evidence[0]} that the virtual environment {environment} has not made", hint=hint)
    return ViewTaken(
        f"{len(evidence)} relations that the virtual environment {environment} has not made"
        " are at the names of its views",
        evidence=evidence,
        hint=hint.replace("it,", "them,"),
    )


def _apply_journal(
    store: Store, lake: Lake, journal: Journal, announce: Announce, done: Mapping[str, str] | None = None
) -> None:
    state = store.read_state_id()
    moves = [_build_view_move(view_move, journal, store.scope, state) for view_move in journal.moves]
    made = lake.swap_views(moves) if moves else {}
    announce("views moved", journal.environment.name)
    names = {view_move.relation: view_move.name for view_move in journal.moves if view_move.name is not None}
    locations = {**(done or {}), **{names[r]: location for r, location in made.items() if r in names}}
    store.finish_journal(journal, locations)
    announce("environment moved", journal.environment.name)


def _build_view_move(move: Move, journal: Journal, scope: str, state: str) -> ViewSwap:
    if move.name is None:
        return ViewSwap(move.relation, None, before=move.before)
    binding = journal.refs[move.name].binding
    properties = {
        ENVIRONMENT: journal.environment.name,
        SCOPE: scope,
        STATE: state,
        BINDING: binding.id,
        **CommitIdentity(model=binding.name, version_hash=binding.version_hash).to_properties(),
        **({"comment": binding.description} if binding.description else {}),
    }
    return ViewSwap(move.relation, binding.text, binding.columns, properties, move.before)


def update_bases(refs: Mapping[str, Ref], baseline: Mapping[str, Ref]) -> dict[str, Ref]:
    """Refs whose base is the baseline's version wherever the two agree now."""
    return {
        name: replace(ref, base=ref.binding.version_hash)
        if name in baseline and baseline[name].binding.version_hash == ref.binding.version_hash
        else ref
        for name, ref in refs.items()
    }


def create_id() -> str:
    """A name for a journal or a checkpoint that sorts by time."""
    return f"{datetime.now(UTC):%Y%m%d%H%M%S}{os.urandom(3).hex()}"


def build_checkpoint(
    environment: Environment,
    refs: Mapping[str, Ref],
    reason: str,
    detail: str,
    run_id: str,
    git: str = "",
    promoted_from: str = "",
) -> Checkpoint:
    """The checkpoint of an environment that shows `refs` from now on."""
    return Checkpoint(
        id=create_id(),
        environment=environment.name,
        parent=environment.checkpoint,
        created_at=datetime.now(UTC),
        reason=reason,
        detail=detail,
        run_id=run_id,
        git=git,
        refs={name: ref.binding.id for name, ref in refs.items()},
        promoted_from=promoted_from,
    )
