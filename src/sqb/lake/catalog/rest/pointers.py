"""The pointers of a REST catalog, each loaded on first access.

Such a catalog has no list of pointers: it has lists of names, and each relation is a request of its own. A team's
catalog may hold thousands of relations that do not concern this project.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from sqb.errors.lake import Conflict, LakeDamaged
from sqb.lake.port import Pointer
from sqb.lake.storage.locations import get_parent
from sqb.names import Relation

# So many relations may be asked for one by one; after that others are taken along.
_SINGLY = 3


class Loaded(NamedTuple):
    """A relation as the server has it now."""

    location: str
    is_view: bool
    document: Mapping[str, Any]


class RelationSource(Protocol):
    """Where relations are listed and loaded."""

    def list_relations(self) -> Mapping[Relation, bool]:
        """Every relation, and whether it is a view."""

    def load(self, relation: Relation, is_view: bool | None = None) -> Loaded | None:
        """A relation as it is now; None where there is none. Without `is_view` it may be either."""

    def load_all(self, relations: Mapping[Relation, bool]) -> Mapping[Relation, Loaded | LakeDamaged]:
        """Those of many that are there, loaded side by side; what is wrong with one does not concern the others."""


class LazyPointer(Pointer):
    """A pointer that loads its location on first access."""

    __slots__ = ("_among",)

    def __init__(self, relation: Relation, is_view: bool, among: RestPointers) -> None:
        # The class above is frozen.
        object.__setattr__(self, "relation", relation)
        object.__setattr__(self, "is_view", is_view)
        object.__setattr__(self, "_among", among)

    @property
    def location(self) -> str:
        among: RestPointers = self._among  # type: ignore[attr-defined]
        return among.get_location(self.relation)


class RestPointers(Mapping[Relation, Pointer]):
    """The pointers of a catalog at one time; a relation that was loaded once stays as it was."""

    def __init__(self, source: RelationSource) -> None:
        self._source = source
        self._names: Mapping[Relation, bool] | None = None
        self._entries: dict[Relation, Loaded | LakeDamaged | None] = {}
        self._request_count = 0
        self._lock = threading.RLock()

    def __getitem__(self, relation: Relation) -> Pointer:
        with self._lock:
            match self._entries.get(relation):
                case Loaded(location=location, is_view=is_view):
                    return Pointer(relation, location, is_view)
                case None if relation in self._entries:
                    raise KeyError(relation)
                case None if self._names is None and self._request_count < _SINGLY:
                    self._request_count += 1
                    self._entries[relation] = self._try_load(relation)
                    return self[relation]
            return LazyPointer(relation, self._list_names()[relation], self)

    def __contains__(self, relation: object) -> bool:
        with self._lock:
            if relation in self._entries:
                return self._entries[relation] is not None
            if self._names is not None:
                return relation in self._names
        return super().__contains__(relation)

    def __iter__(self) -> Iterator[Relation]:
        with self._lock:
            return iter([r for r in self._list_names() if self._entries.get(r, self) is not None])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def fetch(self, relations: Iterable[Relation]) -> None:
        """Load relations side by side, where they are not loaded yet."""
        with self._lock:
            names = self._list_names()
            missing = {r: names[r] for r in relations if r in names and r not in self._entries}
            loaded = self._source.load_all(missing)
            self._entries.update({r: loaded.get(r) for r in missing})

    def get_location(self, relation: Relation) -> str:
        """Where the metadata of a relation is."""
        with self._lock:
            if relation not in self._entries:
                self._request_count += 1
                few = self._request_count <= _SINGLY
                self.fetch([relation] if few else [r for r in self._list_names() if r.schema == relation.schema])
            entry = self._entries[relation]
        match entry:
            case Loaded(location=location):
                return location
            case LakeDamaged():
                raise entry
        raise Conflict(
            f"{relation} was dropped at this very moment",
            hint="run the command again: it starts from what is there now",
        )

    def list_locations(self) -> Collection[str]:
        """Where the metadata is of what was loaded."""
        return [seen.location for seen in self._entries.values() if isinstance(seen, Loaded)]

    def _try_load(self, relation: Relation) -> Loaded | LakeDamaged | None:
        try:
            return self._source.load(relation)
        except LakeDamaged as error:
            return error

    def _list_names(self) -> Mapping[Relation, bool]:
        if self._names is None:
            self._names = self._source.list_relations()
        return self._names


class LiveLocations(Container[str]):
    """The locations of metadata that count: where a relation was looked at, no other metadata of its folder does."""

    def __init__(self, pointers: Mapping[Relation, Pointer]) -> None:
        locations = (
            pointers.list_locations() if isinstance(pointers, RestPointers) else [p.location for p in pointers.values()]
        )
        self._current = {get_parent(location): location for location in locations}

    def __contains__(self, location: object) -> bool:
        return isinstance(location, str) and self._current.get(get_parent(location), location) == location


def fetch(pointers: Iterable[Pointer]) -> None:
    """Load side by side what these pointers lead to."""
    lazy: dict[int, tuple[RestPointers, list[Relation]]] = {}
    for pointer in pointers:
        if isinstance(pointer, LazyPointer):
            among: RestPointers = pointer._among  # type: ignore[attr-defined]
            lazy.setdefault(id(among), (among, []))[1].append(pointer.relation)
    for among, relations in lazy.values():
        among.fetch(relations)
