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

from sqb.environments.model import Ref
from sqb.environments.remove_views import list_views
from sqb.environments.state.store import Store
from sqb.environments.view_properties import LAKE, SCOPE, STATE, STATE_NAME
from sqb.errors.environments import ForeignState
from sqb.identity import digest
from sqb.lake.port import Lake, Pointer, ViewSwap
from sqb.names import Relation

MARK_SCHEMA = "_sqlbuild"
_ID_LENGTH = 8
_MAX_SHOWN = 5
_COLUMNS = json.dumps(
    [{"id": i, "name": n, "required": False, "type": "string"} for i, n in enumerate(("state", "lake", "scope"), 1)]
)


class Match(Enum):
    """Whether a state and a lake belong together."""

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
    """The comparison of a state with a lake."""

    match: Match
    state: str
    state_name: str
    mark: Mark | None
    # The id of the lake that the state says its environments are in; "" where it has none yet.
    lake: str
    # Why they do not belong together.
    why: str = ""

    def check_match(self) -> None:
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


def build_mark_relation(scope: str) -> Relation:
    """The view with which a lake says whose the environments of a scope are."""
    words = re.sub(r"[^a-z0-9]+", "_", scope.lower()).strip("_")[:40]
    return Relation(MARK_SCHEMA, f"state_of_{words}_{digest('scope', scope)[:_ID_LENGTH]}")


def read_pairing(store: Store, lake: Lake) -> Pairing:
    """Compare a state with a lake; nothing is changed."""
    pointers = lake.list_pointers()
    mark = _read_mark(lake, pointers.get(build_mark_relation(store.scope)))
    with store.read_consistently():
        state, known_lake = store.read_state_id(), store.read_lake_id()
    facts = (state, store.name, mark, known_lake)
    if mark is not None:
        return _compare_mark(mark, *facts)
    if not pointers and not known_lake:
        return Pairing(Match.UNPAIRED, *facts)
    why = _explain_unrelated(store, lake, pointers, state, known_lake)
    return Pairing(Match.FOREIGN if why else Match.UNPAIRED, *facts, why)


def pair_lake(store: Store, lake: Lake) -> None:
    """See to it that a state and a lake know each other; refused where they belong to others."""
    pairing = read_pairing(store, lake)
    pairing.check_match()
    mark = pairing.mark
    if mark is None:
        mark = _write_mark(store, lake, pairing, "")
    if pairing.lake != mark.lake:
        # The lake is written first: a state without the id finds itself named there.
        store.set_lake_id(mark.lake)


def repair_pairing(store: Store, lake: Lake) -> Pairing:
    """Let a lake and a state belong together from now on, whatever either says; what they were before."""
    pairing = read_pairing(store, lake)
    if pairing.match is Match.FOREIGN:
        before = pairing.mark
        mark = _write_mark(store, lake, pairing, before.location if before is not None else "", uuid.uuid4().hex)
        store.set_lake_id(mark.lake)
    else:
        pair_lake(store, lake)
    return pairing


def _compare_mark(mark: Mark, state: str, state_name: str, _: Mark | None, known_lake: str) -> Pairing:
    facts = (state, state_name, mark, known_lake)
    if mark.state != state:
        why = (
            "the environments in this lake are kept in another state: "
            f"found {_format_state(state, state_name)}, expected {_format_state(mark.state, mark.name)}"
        )
        return Pairing(Match.FOREIGN, *facts, why)
    if known_lake and known_lake != mark.lake:
        lakes = f"found {_shorten_id(mark.lake)}, expected {_shorten_id(known_lake)}"
        why = f"{_format_state(state, state_name)} is of another lake: {lakes}"
        return Pairing(Match.FOREIGN, *facts, why)
    return Pairing(Match.PAIRED if known_lake else Match.UNPAIRED, *facts)


def _explain_unrelated(
    store: Store, lake: Lake, pointers: Mapping[Relation, Pointer], state: str, known_lake: str
) -> str:
    """Why a state is not that of a lake without a mark; "" where it is, or where neither has anything to lose."""
    with store.read_consistently():
        shown = [store.read_refs(name) for name in store.read_environments()]
        shown += [journal.refs for journal in store.read_journals().values()]
    if _is_in_lake(shown, lake, pointers):
        return ""
    state_text = _format_state(state, store.name)
    views = sorted(list_views(lake, store.scope))
    if views:
        listed = ", ".join(views[:_MAX_SHOWN]) + (" …" if len(views) > _MAX_SHOWN else "")
        knows = "has other environments" if any(shown) else "knows no environment"
        return (
            "the environments in this lake are kept in another state:"
            f" found {state_text}, which {knows} of {store.scope};"
            f" expected the one that made the views of {listed}"
        )
    if any(shown):
        expected = f", expected the lake {_shorten_id(known_lake)}" if known_lake else ""
        return f"{state_text} is of another lake: nothing that its environments show is in this one{expected}"
    return ""


def _is_in_lake(shown: list[Mapping[str, Ref]], lake: Lake, pointers: Mapping[Relation, Pointer]) -> bool:
    """Whether a lake has something that a state says it shows: a view as it was made, or rows of a table."""
    if not any(shown):
        return False
    locations = {pointer.location for pointer in pointers.values() if pointer.is_view}
    if any(ref.location in locations for ref in _iter_refs(shown) if ref.location):
        return True
    return any(lake.has_snapshot(Relation.parse(r), at) for ref in _iter_refs(shown) for r, at in ref.binding.reads)


def _iter_refs(shown: list[Mapping[str, Ref]]) -> Iterator[Ref]:
    for refs in shown:
        yield from refs.values()


def _read_mark(lake: Lake, pointer: Pointer | None) -> Mark | None:
    if pointer is None or not pointer.is_view:
        return None
    properties = lake.read_tables([pointer])[pointer.relation].properties
    return Mark(properties.get(STATE, ""), properties.get(LAKE, ""), properties.get(STATE_NAME, ""), pointer.location)


def _write_mark(store: Store, lake: Lake, pairing: Pairing, before: str, lake_id: str | None = None) -> Mark:
    """Write down in the lake whose it is; the mark of a faster process wins."""
    mark = Mark(pairing.state, lake_id or pairing.lake or uuid.uuid4().hex, store.name)
    values = (mark.state, mark.lake, store.scope)
    text = "SELECT " + ", ".join(
        f"'{v.replace(chr(39), '')}' AS {n}" for v, n in zip(values, ("state", "lake", "scope"), strict=True)
    )
    properties = {STATE: mark.state, LAKE: mark.lake, SCOPE: store.scope, STATE_NAME: store.name}
    lake.swap_views([ViewSwap(build_mark_relation(store.scope), text, _COLUMNS, properties, before)])
    return mark


def _format_state(state: str, name: str) -> str:
    return f"the state {_shorten_id(state)} in {name}"


def _shorten_id(id: str) -> str:
    return id[:_ID_LENGTH] or "without an id"
