"""An environment moved: its views, all at once, and what the store knows of it.

What it is about to become is written down first. A command that ends in the middle leaves that behind, and whoever
works on the environment next carries it out: everything it needs had been made before.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime

from sqb.build.steps import Announce, silent
from sqb.environments.naming import logical_relation
from sqb.environments.pairing import look_at_pair, pair
from sqb.environments.port import Store
from sqb.environments.properties import BINDING, ENVIRONMENT, SCOPE, STATE
from sqb.environments.removing import began_as, refuse_baseline, remove_environment
from sqb.environments.values import Binding, Checkpoint, Environment, Journal, Move, Ref
from sqb.errors_environments import ViewTaken
from sqb.lake.port import Lake, Pointer, TableState, ViewMove
from sqb.names import Relation


@contextmanager
def locked(
    store: Store, lake: Lake, name: str, owner: str, take_over: bool = False, announce: Announce = silent
) -> Iterator[str]:
    """Hold an environment's lock, with what an earlier command left undone finished; gives the token.

    Refused where the lake's environments are kept in another state.
    """
    look_at_pair(store, lake).refuse_foreign()
    with store.lock(name, owner, take_over) as token:
        finish_left(store, lake, name, announce)
        yield token


def take_away(
    store: Store,
    lake: Lake,
    name: str,
    owner: str,
    take_over: bool = False,
    force: bool = False,
    announce: Announce = silent,
) -> int:
    """Remove an environment; how many views it had. With `force` also one that others began as."""
    with ExitStack() as held:
        names = {name, *began_as(name, store.environments())} if force else {name}
        # Always in the same order: two commands never wait for each other.
        tokens = {n: held.enter_context(locked(store, lake, n, owner, take_over, announce)) for n in sorted(names)}
        known = store.environments()
        refuse_baseline(name, known, force and names >= {*began_as(name, known)})
        pair(store, lake)
        return remove_environment(store, lake, name, tokens[name], announce)


def move(
    store: Store,
    lake: Lake,
    environment: Environment,
    before: Mapping[str, Ref],
    after: Mapping[str, Ref],
    token: str,
    unsuffixed: str | None,
    checkpoint: Checkpoint | None = None,
    announce: Announce = silent,
) -> int:
    """Make an environment show `after` instead of `before`; how many of its views are others now."""
    pair(store, lake)
    moves = moves_to(lake, environment.name, before, after, unsuffixed)
    journal = Journal(new_id(), environment, after, moves, checkpoint)
    store.begin(journal, token)
    announce("environment begun", environment.name)
    _carry_out(store, lake, journal, announce)
    return len(moves)


def finish_left(store: Store, lake: Lake, name: str, announce: Announce = silent) -> bool:
    """Carry out what a command left undone that ended too early; whether there was anything. Needs the lock."""
    journal = store.journal(name)
    if journal is None:
        return False
    pointers = lake.pointers()
    standing = [pointers[m.relation] for m in journal.moves if m.relation in pointers]
    states = lake.tables(standing) if standing else {}
    shown = {r: _said(s) for r, s in states.items()}
    rest, done = [], {}
    for one in journal.moves:
        pointer = pointers.get(one.relation)
        wanted = journal.refs[one.name].binding if one.name is not None else None
        if pointer is None and wanted is None:
            continue
        if pointer is not None and wanted is not None and _shows(states[one.relation], wanted, name):
            done[wanted.name] = pointer.location
            continue
        if pointer is not None:
            _refuse_taken(pointer, shown[one.relation], name)
        rest.append(replace(one, before=pointer.location if pointer is not None else ""))
    _carry_out(store, lake, replace(journal, moves=tuple(rest)), announce, done)
    return True


def moves_to(
    lake: Lake, environment: str, before: Mapping[str, Ref], after: Mapping[str, Ref], unsuffixed: str | None
) -> tuple[Move, ...]:
    """The views that differ between what an environment shows and what it is to show; removed ones first."""
    pointers = lake.pointers()
    wanted = {_view(r.binding, environment, unsuffixed): name for name, r in after.items() if r.binding.relation}
    shown = {_view(r.binding, environment, unsuffixed): r for r in before.values() if r.binding.relation}
    refuse_taken(lake, environment, (*wanted, *shown), shown)
    gone = (Move(r, None, pointers[r].location) for r in sorted(shown.keys() - wanted.keys()) if r in pointers)
    return (*gone, *_made(wanted, shown, after, pointers))


def misplaced_views(
    lake: Lake, environment: str, refs: Mapping[str, Ref], unsuffixed: str | None
) -> dict[str, Relation]:
    """The views of an environment that are gone from the catalog or were replaced, by the nodes' names."""
    pointers = lake.pointers()
    views = {n: _view(r.binding, environment, unsuffixed) for n, r in refs.items() if r.binding.relation is not None}
    return {n: view for n, view in views.items() if view not in pointers or not _is_ours(pointers[view], refs[n])}


def _shows(state: TableState, wanted: Binding, environment: str) -> bool:
    """Whether a view is that of the environment on what is wanted; a text that somebody put there is not."""
    said = _said(state)
    return not state.drifted and said.get(BINDING) == wanted.id and said.get(ENVIRONMENT) == environment


def _said(state: TableState) -> dict[str, str]:
    return {**state.properties, **state.identity}


def _made(
    wanted: Mapping[Relation, str],
    shown: Mapping[Relation, Ref],
    after: Mapping[str, Ref],
    pointers: Mapping[Relation, Pointer],
) -> Iterable[Move]:
    for relation, name in sorted(wanted.items()):
        pointer, ref = pointers.get(relation), shown.get(relation)
        same = ref is not None and _as_shown(ref.binding) == _as_shown(after[name].binding)
        if not same or pointer is None or not _is_ours(pointer, ref):
            yield Move(relation, name, pointer.location if pointer is not None else "")


def _as_shown(binding: Binding) -> tuple[str, str, str]:
    return (binding.text, binding.columns, binding.description)


def _view(binding: Binding, environment: str, unsuffixed: str | None) -> Relation:
    return logical_relation(binding.logical, environment, unsuffixed)


def _is_ours(pointer: Pointer, ref: Ref | None) -> bool:
    return ref is not None and pointer.is_view and bool(ref.location) and pointer.location == ref.location


def refuse_taken(lake: Lake, environment: str, views: Iterable[Relation], shown: Mapping[Relation, Ref]) -> None:
    """Refuse to put views where something stands that the environment has not made; all that does is told at once."""
    pointers = lake.pointers()
    strange = [pointers[r] for r in dict.fromkeys(views) if r in pointers and not _is_ours(pointers[r], shown.get(r))]
    states = lake.tables(strange) if strange else {}
    taken = [p for p in strange if not _is_of(environment, p, _said(states[p.relation]))]
    if taken:
        raise _taken(taken, environment)


def _is_of(environment: str, pointer: Pointer, properties: Mapping[str, str]) -> bool:
    """Whether a view is the environment's; one that somebody altered still is."""
    return pointer.is_view and properties.get(ENVIRONMENT) == environment


def _refuse_taken(pointer: Pointer, properties: Mapping[str, str], environment: str) -> None:
    """Refuse to replace what the environment has not made."""
    if not _is_of(environment, pointer, properties):
        raise _taken([pointer], environment)


def _taken(pointers: Sequence[Pointer], environment: str) -> ViewTaken:
    hint = (
        "rename or drop it, or give the models another schema or the environment another name;"
        " `sqb state adopt` takes tables that sqb built into the baseline"
    )
    told = [f"{p.relation} is {'a view' if p.is_view else 'a table'}" for p in sorted(pointers, key=str)]
    if len(told) == 1:
        return ViewTaken(f"{told[0]} that the virtual environment {environment} has not made", hint=hint)
    return ViewTaken(
        f"{len(told)} relations that the virtual environment {environment} has not made stand where its views should",
        evidence=told,
        hint=hint.replace("it,", "them,"),
    )


def _carry_out(
    store: Store, lake: Lake, journal: Journal, announce: Announce, done: Mapping[str, str] | None = None
) -> None:
    state = store.state_id()
    moves = [_view_move(one, journal, store.scope, state) for one in journal.moves]
    made = lake.move_views(moves) if moves else {}
    announce("views moved", journal.environment.name)
    names = {one.relation: one.name for one in journal.moves if one.name is not None}
    locations = {**(done or {}), **{names[r]: location for r, location in made.items() if r in names}}
    store.finish(journal, locations)
    announce("environment moved", journal.environment.name)


def _view_move(one: Move, journal: Journal, scope: str, state: str) -> ViewMove:
    if one.name is None:
        return ViewMove(one.relation, None, before=one.before)
    bound = journal.refs[one.name].binding
    properties = {
        ENVIRONMENT: journal.environment.name,
        SCOPE: scope,
        STATE: state,
        BINDING: bound.id,
        "sqb.model": bound.name,
        "sqb.version_hash": bound.version_hash,
        **({"comment": bound.description} if bound.description else {}),
    }
    return ViewMove(one.relation, bound.text, bound.columns, properties, one.before)


def with_bases(refs: Mapping[str, Ref], baseline: Mapping[str, Ref]) -> dict[str, Ref]:
    """Refs whose base is the baseline's version wherever the two agree now."""
    return {
        name: replace(ref, base=ref.binding.version_hash)
        if name in baseline and baseline[name].binding.version_hash == ref.binding.version_hash
        else ref
        for name, ref in refs.items()
    }


def new_id() -> str:
    """A name for a journal or a checkpoint that sorts by time."""
    return f"{datetime.now(UTC):%Y%m%d%H%M%S}{os.urandom(3).hex()}"


def checkpoint_of(
    environment: Environment, refs: Mapping[str, Ref], reason: str, detail: str, run_id: str, git: str = ""
) -> Checkpoint:
    """The checkpoint of an environment that shows `refs` from now on."""
    return Checkpoint(
        id=new_id(),
        environment=environment.name,
        parent=environment.checkpoint,
        created_at=datetime.now(UTC),
        reason=reason,
        detail=detail,
        run_id=run_id,
        git=git,
        refs={name: ref.binding.id for name, ref in refs.items()},
    )
