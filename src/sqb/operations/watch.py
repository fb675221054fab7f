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
from sqb.lake.port import Lake
from sqb.names import Relation
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
    # The table; in a virtual environment each version of a model has its own.
    relation: str = ""

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


def read_versions(open_workspace: Callable[[], Workspace], virtual_env: str | None = None) -> dict[str, TableVersion]:
    """What the tables of a project hold now; nothing where its files are broken, or where there is no lake yet.

    Of a virtual environment, the tables that it shows.
    """
    try:
        workspace = open_workspace()
        lake, nodes = _open_tables(workspace, virtual_env)
        pointers = lake.list_pointers()
        states = lake.read_tables(pointers[relation] for relation in nodes if relation in pointers)
    except (SqbError, SqbErrors):
        return {}
    return {
        nodes[relation]: TableVersion(
            state.snapshot_id, state.same_rows, state.identity.content, state.rows, str(relation)
        )
        for relation, state in states.items()
        if state.snapshot_id is not None and not state.is_view
    }


def _open_tables(workspace: Workspace, virtual_env: str | None) -> tuple[Lake, Mapping[Relation, str]]:
    """The lake, and the names of the nodes by their tables."""
    if not workspace.virtual.enabled:
        return open_lake(workspace), {node.relation: node.name for node in workspace.project if node.kind != "view"}
    from sqb.environments.session import open_session  # only projects with environments load their database

    session = open_session(workspace, virtual_env)
    nodes = workspace.project.nodes
    shown = ((name, ref.binding) for name, ref in session.refs.items() if name in nodes and nodes[name].kind != "view")
    return session.lake, {binding.relation: name for name, binding in shown if binding.relation is not None}


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
