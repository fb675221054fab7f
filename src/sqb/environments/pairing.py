"""A lake and the state that its environments are kept in know each other by ids that are written into both.

The state has an id, and knows the id of the lake that a scope's environments are in. The lake has a *mark* for each
scope: a small view that names both ids. A lake and a state that were made before there were marks are paired when the
lake shows what the state says. Nothing of an environment is changed with a state that the lake does not belong to.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from sqb.environments.port import Store
from sqb.environments.properties import LAKE, SCOPE, STATE, STATE_NAME
from sqb.environments.removing import views_by_environment
from sqb.environments.values import Ref
from sqb.errors_environments import ForeignState
from sqb.identity import digest
from sqb.lake.port import Lake, Pointer, ViewMove
from sqb.names import Relation

MARK_SCHEMA = "_sqlbuild"
_SHOWN = 8
_MOST = 5
_COLUMNS = json.dumps(
    [{"id": i, "name": n, "required": False, "type": "string"} for i, n in enumerate(("state", "lake", "scope"), 1)]
)


class Match(Enum):
    """How a state and a lake stand to each other."""

    # Both say that they belong together.
    PAIRED = auto()
    # Neither says anything, or only one of them, and nothing speaks against it.
    UNPAIRED = auto()
    # They do not belong together.
    FOREIGN = auto()


@dataclass(frozen=True, slots=True)
class Mark:
    """What a lake says of the state that the environments of a scope are kept in."""

    state: str
    lake: str
    name: str
    # The metadata file of the view that says so.
    location: str = ""


@dataclass(frozen=True, slots=True)
class Pairing:
    """A state and a lake held against each other."""

    match: Match
    state: str
    state_name: str
    mark: Mark | None
    # The id of the lake that the state says its environments are in; "" where it has none yet.
    lake: str
    # Why they do not belong together.
    why: str = ""

    def refuse_foreign(self) -> None:
        """Refuse to go on with a state and a lake that do not belong together."""
        if self.match is Match.FOREIGN:
            raise ForeignState(
                self.why,
                hint="name the expected one: `state` in [virtual] or SQB_STATE; where it is lost for good,"
                " `sqb state pair` lets this lake and this state belong together",
            )

    def to_data(self) -> dict[str, object]:
        mark = self.mark
        return {
            "id": self.state,
            "match": self.match.name.lower(),
            "expected": {"id": mark.state, "name": mark.name} if mark is not None else None,
            "why": self.why or None,
        }


def mark_relation(scope: str) -> Relation:
    """The view with which a lake says whose the environments of a scope are."""
    words = re.sub(r"[^a-z0-9]+", "_", scope.lower()).strip("_")[:40]
    return Relation(MARK_SCHEMA, f"state_of_{words}_{digest('scope', scope)[:_SHOWN]}")


def look_at_pair(store: Store, lake: Lake) -> Pairing:
    """Hold a state against a lake; nothing is changed."""
    pointers = lake.pointers()
    mark = _read_mark(lake, pointers.get(mark_relation(store.scope)))
    with store.looking():
        state, known_lake = store.state_id(), store.lake_id()
    facts = (state, store.name, mark, known_lake)
    if mark is not None:
        return _held_against(mark, *facts)
    if not pointers and not known_lake:
        return Pairing(Match.UNPAIRED, *facts)
    why = _why_unrelated(store, lake, pointers, state, known_lake)
    return Pairing(Match.FOREIGN if why else Match.UNPAIRED, *facts, why)


def pair(store: Store, lake: Lake) -> None:
    """See to it that a state and a lake know each other; refused where they belong to others."""
    found = look_at_pair(store, lake)
    found.refuse_foreign()
    mark = found.mark
    if mark is None:
        mark = _write_mark(store, lake, found, "")
    if found.lake != mark.lake:
        # The lake is told first: a state that has not been told yet finds itself named there.
        store.set_lake_id(mark.lake)


def pair_anew(store: Store, lake: Lake) -> Pairing:
    """Let a lake and a state belong together from now on, whatever either says; what they were before."""
    found = look_at_pair(store, lake)
    if found.match is Match.FOREIGN:
        before = found.mark
        mark = _write_mark(store, lake, found, before.location if before is not None else "", uuid.uuid4().hex)
        store.set_lake_id(mark.lake)
    else:
        pair(store, lake)
    return found


def _held_against(mark: Mark, state: str, state_name: str, _: Mark | None, known_lake: str) -> Pairing:
    facts = (state, state_name, mark, known_lake)
    if mark.state != state:
        why = (
            "the environments in this lake are kept in another state: "
            f"found {_told(state, state_name)}, expected {_told(mark.state, mark.name)}"
        )
        return Pairing(Match.FOREIGN, *facts, why)
    if known_lake and known_lake != mark.lake:
        why = f"{_told(state, state_name)} is of another lake: found {_id(mark.lake)}, expected {_id(known_lake)}"
        return Pairing(Match.FOREIGN, *facts, why)
    return Pairing(Match.PAIRED if known_lake else Match.UNPAIRED, *facts)


def _why_unrelated(store: Store, lake: Lake, pointers: Mapping[Relation, Pointer], state: str, known_lake: str) -> str:
    """Why a state is not that of a lake without a mark; "" where it is, or where neither has anything to lose."""
    with store.looking():
        shown = [store.refs(name) for name in store.environments()]
        shown += [journal.refs for journal in store.journals().values()]
    if _is_seen(shown, lake, pointers):
        return ""
    found = _told(state, store.name)
    views = sorted(views_by_environment(lake, store.scope))
    if views:
        listed = ", ".join(views[:_MOST]) + (" …" if len(views) > _MOST else "")
        knows = "has other environments" if any(shown) else "knows no environment"
        return (
            f"the environments in this lake are kept in another state: found {found}, which {knows} of {store.scope};"
            f" expected the one that made the views of {listed}"
        )
    if any(shown):
        expected = f", expected the lake {_id(known_lake)}" if known_lake else ""
        return f"{found} is of another lake: nothing that its environments show is in this one{expected}"
    return ""


def _is_seen(shown: list[Mapping[str, Ref]], lake: Lake, pointers: Mapping[Relation, Pointer]) -> bool:
    """Whether a lake has something that a state says it shows: a view as it was made, or rows of a table."""
    if not any(shown):
        return False
    locations = {pointer.location for pointer in pointers.values() if pointer.is_view}
    if any(ref.location in locations for ref in _refs(shown) if ref.location):
        return True
    return any(lake.has_snapshot(Relation.parse(r), at) for ref in _refs(shown) for r, at in ref.binding.reads)


def _refs(shown: list[Mapping[str, Ref]]) -> Iterator[Ref]:
    for refs in shown:
        yield from refs.values()


def _read_mark(lake: Lake, pointer: Pointer | None) -> Mark | None:
    if pointer is None or not pointer.is_view:
        return None
    state = lake.tables([pointer])[pointer.relation]
    said = {**state.properties, **state.identity}
    return Mark(said.get(STATE, ""), said.get(LAKE, ""), said.get(STATE_NAME, ""), pointer.location)


def _write_mark(store: Store, lake: Lake, found: Pairing, before: str, lake_id: str | None = None) -> Mark:
    """Write down in the lake whose it is; where somebody was quicker, that counts."""
    mark = Mark(found.state, lake_id or found.lake or uuid.uuid4().hex, store.name)
    values = (mark.state, mark.lake, store.scope)
    text = "SELECT " + ", ".join(
        f"'{v.replace(chr(39), '')}' AS {n}" for v, n in zip(values, ("state", "lake", "scope"), strict=True)
    )
    said = {STATE: mark.state, LAKE: mark.lake, SCOPE: store.scope, STATE_NAME: store.name}
    lake.move_views([ViewMove(mark_relation(store.scope), text, _COLUMNS, said, before)])
    return mark


def _told(state: str, name: str) -> str:
    return f"the state {_id(state)} in {name}"


def _id(id: str) -> str:
    return id[:_SHOWN] or "without an id"
