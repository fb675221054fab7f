"""What the names in models' queries mean: tables, columns and aliases, with their places in files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from sqb.build.observe.columns import build_signatures
from sqb.compile.model import Node, Project
from sqb.lsp.places import Place, find_origin
from sqb.lsp.snapshot import Snapshot
from sqb.sql.columns.functions.signatures import Signatures
from sqb.sql.columns.uses import Output, QueryColumn, QueryUses, TableColumn, Use, find_uses
from sqb.types import model as m
from sqb.types.parse import parse_type

# A table by where its name begins in a query, with its columns; None where they are not known.
_Table = tuple[int, tuple[tuple[str | None, str], ...] | None]


@dataclass(frozen=True, slots=True)
class ColumnMention:
    """A name of a column of a node or source, in a model's query."""

    owner: str
    column: str
    place: Place
    use: Use


def read_uses(snapshot: Snapshot, node: Node) -> QueryUses:
    """What the names in a model's query mean."""
    if snapshot.workspace is None or not node.sql or node.unread:
        return QueryUses(is_partial=True)
    tables = tuple(
        (slot.start, None if columns.is_open or slot.is_pinned else columns.columns)
        for slot, name in zip(node.slots, node.reads, strict=True)
        for columns in (snapshot.get_columns(name),)
    )
    signatures = build_signatures(snapshot.workspace)
    own = tuple((name, str(kind)) for name, kind in signatures.own.items())
    return _find_uses(node.sql, tables, own)


@lru_cache(maxsize=4096)
def _find_uses(text: str, tables: tuple[_Table, ...], own: tuple[tuple[str, str], ...]) -> QueryUses:
    from sqb.sql.analysis.parse import read_query_outline

    known = {
        slot: None if columns is None else [(name, parse_type(kind) or m.UNKNOWN) for name, kind in columns]
        for slot, columns in tables
    }
    return find_uses(read_query_outline(text), text, known, Signatures(dict(own)))


def get_owner(node: Node, origin: TableColumn) -> str | None:
    """The node or source whose column it is."""
    return next((name for s, name in zip(node.slots, node.reads, strict=True) if s.start == origin.slot), None)


def iter_mentions(snapshot: Snapshot, node: Node) -> Iterator[ColumnMention]:
    """The columns of tables that a model's query names, where they are written in its file."""
    for use in read_uses(snapshot, node).uses:
        if isinstance(use.origin, TableColumn) and (owner := get_owner(node, use.origin)) is not None:
            place = find_origin(node, use.start, use.end)
            if place is not None:
                yield ColumnMention(owner, use.origin.column, place, use)


def iter_readers(project: Project, owner: str) -> Iterator[Node]:
    """The models whose queries read a table."""
    return (node for node in project if owner in node.reads)


def find_output(snapshot: Snapshot, node: Node, column: str) -> Output | None:
    """A column of a model's result."""
    folded = column.lower()
    outputs = read_uses(snapshot, node).outputs
    return next((o for o in outputs if o.name is not None and o.name.lower() == folded), None)


def find_output_place(snapshot: Snapshot, node: Node, column: str) -> Place | None:
    """Where a model names a column of its result: an alias, or a column in its list; None for a star."""
    output = find_output(snapshot, node, column)
    if output is None or output.origin is None:
        return None
    if isinstance(output.origin, QueryColumn):
        return find_origin(node, output.origin.start, output.origin.end) if output.origin.start >= 0 else None
    items = [u for u in read_uses(snapshot, node).uses if u.is_item and u.origin == output.origin]
    # The last list is that of the query itself; those before it are in CTEs and subqueries.
    return find_origin(node, items[-1].start, items[-1].end) if items else None


def find_named(project: Project, text: str) -> str | None:
    """The node or source that a name means; None where nothing or more than one is called so."""
    folded = text.replace("`", "").lower()
    everything = [*project.nodes, *project.externals, *(n for n in project.sources if n not in project.externals)]
    exact = [n for n in everything if n.lower() == folded]
    relations = [n.name for n in (*project, *project.externals.values()) if str(n.relation).lower() == folded]
    short = [n for n in everything if n.lower().rpartition(".")[2] == folded]
    matches = exact or relations or short
    return matches[0] if len(matches) == 1 else None
