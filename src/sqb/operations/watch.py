"""Watches the files of a project: a round of work whenever some were saved, until the user has had enough.

What a round does is the caller's; here is when there is one, and which tables came out of it with other rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sqb.errors.base import SqbError, SqbErrors
from sqb.lake.open import open_lake
from sqb.project.files import Stamp, find_root, read_stamps
from sqb.workspace import Workspace

# How often files are looked at, and how long they must stay as they are: editors save in several steps.
_SECONDS_BETWEEN_LOOKS = 0.3
_SECONDS_AT_REST = 0.2

Stamps = Mapping[str, Stamp]


@dataclass(frozen=True, slots=True)
class TableVersion:
    """What a table holds: its snapshot, those with the same rows, their checksum, and how many rows there are."""

    snapshot_id: int
    same_rows: tuple[int, ...]
    content: str
    rows: int | None

    def has_rows_of(self, before: TableVersion) -> bool:
        """Whether the rows are those of another version."""
        return before.snapshot_id in (self.snapshot_id, *self.same_rows) or (
            bool(self.content) and self.content == before.content
        )


@dataclass(frozen=True, slots=True)
class ChangedTable:
    """A table with other rows than before; `before` is None for a new one."""

    name: str
    before: TableVersion | None
    now: TableVersion


def iter_saves(
    start: Path, sleep: Callable[[float], None] = time.sleep, read: Callable[[Path], Stamps] = read_stamps
) -> Iterator[tuple[str, ...]]:
    """The files that were saved, added or removed, each time when that has come to rest; at first none."""
    root = find_root(start)
    known = _read(read, root, {})
    yield ()
    while True:
        stamps = _read(read, root, known)
        if stamps == known:
            sleep(_SECONDS_BETWEEN_LOOKS)
            continue
        while True:
            sleep(_SECONDS_AT_REST)
            later = _read(read, root, stamps)
            if later == stamps:
                break
            stamps = later
        changed = sorted(path for path in known.keys() | stamps.keys() if known.get(path) != stamps.get(path))
        known = stamps
        yield tuple(changed)


def _read(read: Callable[[Path], Stamps], root: Path, known: Stamps) -> Stamps:
    """The stamps of all files; what was known where a folder goes away at this very moment."""
    try:
        return read(root)
    except (OSError, SqbError):
        return known


def read_versions(open_workspace: Callable[[], Workspace]) -> dict[str, TableVersion]:
    """What the tables of a project hold now; nothing where its files are broken, or where there is no lake yet."""
    try:
        workspace = open_workspace()
        lake = open_lake(workspace)
        pointers = lake.list_pointers()
        nodes = {node.relation: node.name for node in workspace.project if node.kind != "view"}
        states = lake.read_tables(pointers[relation] for relation in nodes if relation in pointers)
    except (SqbError, SqbErrors):
        return {}
    return {
        nodes[relation]: TableVersion(state.snapshot_id, state.same_rows, state.identity.content, state.rows)
        for relation, state in states.items()
        if state.snapshot_id is not None and not state.is_view
    }


def list_changed_tables(
    before: Mapping[str, TableVersion], now: Mapping[str, TableVersion]
) -> tuple[ChangedTable, ...]:
    """The tables with other rows than before, and new ones."""
    changed = []
    for name, version in now.items():
        past = before.get(name)
        if past is None or not version.has_rows_of(past):
            changed.append(ChangedTable(name, past, version))
    return tuple(changed)
