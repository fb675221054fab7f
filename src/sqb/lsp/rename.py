"""Renaming a column, a model or a name of a query through the project: the edits, or why it is not done.

A column that a query hands on under its own name is renamed there too, down to where it gets another name; unit tests,
exposures, headers of seeds and the files beside them go along. The project with the edits must have no mistake that it
does not have now, and read nothing from outside that it does not read now: else nothing is renamed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from sqb.lsp.header_columns import iter_foreign_names, iter_header_columns
from sqb.lsp.model_names import iter_mentions, iter_readers, read_uses
from sqb.lsp.navigation import iter_references
from sqb.lsp.places import Place, find_origin
from sqb.lsp.snapshot import Snapshot
from sqb.lsp.symbols import ColumnSymbol, LocalSymbol, Symbol, TableSymbol, find_seed_column, find_symbol
from sqb.lsp.yaml_names import iter_yaml_names
from sqb.names import quote
from sqb.project.files import list_seed_files
from sqb.sql.columns.uses import QueryColumn, TableColumn

_NAME = re.compile(r"[A-Za-z_]\w*")


class Check(Protocol):
    """Reads the project with other texts, and without some files."""

    def __call__(self, texts: Mapping[str, str], removed: Collection[str] = ()) -> Snapshot: ...


class CannotRename(Exception):
    """Why something is not renamed."""


@dataclass(frozen=True, slots=True)
class Renaming:
    """Edits of texts by place, and files that get other names."""

    edits: Mapping[Place, str] = field(default_factory=dict)
    moved: tuple[tuple[str, str], ...] = ()

    def apply(self, snapshot: Snapshot) -> dict[str, str]:
        """The texts of the files that change."""
        texts: dict[str, str] = {}
        for place in sorted(self.edits, key=lambda p: (p.file, -p.start)):
            text = texts.get(place.file, snapshot.read_text(place.file))
            texts[place.file] = text[: place.start] + self.edits[place] + text[place.end :]
        return texts


def find_renamed(snapshot: Snapshot, path: str, offset: int) -> tuple[Symbol, Place] | None:
    """What would be renamed at an offset, and the span that names it."""
    symbol = find_symbol(snapshot, path, offset)
    return symbol if symbol is not None and isinstance(symbol[0], TableSymbol | ColumnSymbol | LocalSymbol) else None


def rename(snapshot: Snapshot, path: str, offset: int, name: str, check: Check) -> Renaming:
    """The edits that give what is at an offset another name; `CannotRename` where that is not safe."""
    renamed = find_renamed(snapshot, path, offset)
    if renamed is None or snapshot.workspace is None:
        raise CannotRename("only tables, columns and names of a query can be renamed")
    if not snapshot.is_compiled_from(path):
        raise CannotRename("the text has a mistake: mend it first")
    symbol = renamed[0]
    match symbol:
        case TableSymbol(node):
            renaming = _rename_table(snapshot, node, name)
        case ColumnSymbol(owner, column):
            renaming = _rename_column(snapshot, owner, column, name)
        case _:
            written = name if _NAME.fullmatch(name) else quote(name)
            renaming = Renaming(dict.fromkeys(iter_references(snapshot, symbol), written))
    _refuse_mistakes(snapshot, renaming, check)
    return renaming


def _refuse_mistakes(snapshot: Snapshot, renaming: Renaming, check: Check) -> None:
    texts = {**snapshot.texts, **renaming.apply(snapshot)}
    for old, new in renaming.moved:
        texts[new] = texts.pop(old, snapshot.read_text(old))
    after = check(texts, [old for old, _ in renaming.moved])
    before = {(e.code, e.message) for e in snapshot.errors}
    wrong = [e for e in after.errors if (e.code, e.message) not in before]
    if wrong:
        raise CannotRename(f"it would be a mistake: {wrong[0].at}: {wrong[0].message}")
    assert snapshot.workspace is not None
    if after.workspace is not None:
        outside = after.workspace.project.externals.keys() - snapshot.workspace.project.externals.keys()
        readers = [n.file for n in after.workspace.project if outside & set(n.reads)]
        # What is renamed may be an external itself: then its new name is one, and the old one is gone.
        left = sorted(set(readers) - {place.file for place in renaming.edits})
        if left:
            raise CannotRename(f"{left[0]} would still read it by its old name")


def _rename_table(snapshot: Snapshot, table: str, name: str) -> Renaming:
    assert snapshot.workspace is not None
    project = snapshot.workspace.project
    node, source = project.nodes.get(table), project.sources.get(table)
    is_file = node is not None and (node.type == "seed" or (node.type == "model" and not node.python))
    if not is_file and (node is not None or source is None or source.function is not None):
        raise CannotRename("only models in models/, seeds and declared sources can be renamed here")
    if not _NAME.fullmatch(name):
        raise CannotRename("the name of a table has letters, digits and underscores")
    schema = table.rpartition(".")[0]
    whole = f"{schema}.{name}" if schema else name
    if any(other.lower() == whole.lower() for other in (*project.nodes, *project.sources, *project.externals)):
        raise CannotRename(f"there is a {whole} already")
    old = table.rpartition(".")[2]
    edits = {place: _replace_end(snapshot, place, old, name) for place in _iter_table_places(snapshot, table)}
    return Renaming(edits, tuple(_list_moved(snapshot, node.file, name)) if node is not None else ())


def _iter_table_places(snapshot: Snapshot, table: str) -> Iterable[Place]:
    """Where a table is named, in queries and in YAML."""
    assert snapshot.workspace is not None
    for reader in iter_readers(snapshot.workspace.project, table):
        for slot, read in zip(reader.slots, reader.reads, strict=True):
            if read != table:
                continue
            place = find_origin(reader, slot.start, slot.end)
            if place is None:
                raise CannotRename(f"{reader.file} reads it through a macro or a function")
            if slot.alias is not None and slot.qualifiers:
                raise CannotRename(f"{reader.file} names its columns by its name: give it an alias there first")
            yield place
    for node in snapshot.workspace.project:
        yield from (named for other, _, named, _ in iter_foreign_names(snapshot, node) if other == table)
    yield from (n.place for n in iter_yaml_names(snapshot) if n.table == table and n.column is None)


def _replace_end(snapshot: Snapshot, place: Place, old: str, name: str) -> str:
    """What is written at a place, with the old name at its end replaced."""
    written = snapshot.read_text(place.file)[place.start : place.end]
    match = re.search(rf"(?i)(?<!\w){re.escape(old)}(?=[`'\")\s]*$)", written)
    if match is None:
        raise CannotRename(f"{place.file} calls it {written}")
    return f"{written[: match.start()]}{name}{written[match.end() :]}"


def _list_moved(snapshot: Snapshot, file: str, name: str) -> Iterable[tuple[str, str]]:
    """The files of a model or a seed: what stands beside a seed goes along."""
    folder = file.rpartition("/")[0]
    for path in list_seed_files(file) if file.endswith(".csv") else (file,):
        if path in snapshot.texts or (snapshot.root / path).is_file():
            yield path, f"{folder}/{name}.{path.rpartition('.')[2]}"


def _rename_column(snapshot: Snapshot, owner: str, column: str, name: str) -> Renaming:
    assert snapshot.workspace is not None
    project, written = snapshot.workspace.project, name if _NAME.fullmatch(name) else quote(name)
    edits: dict[Place, str] = {}
    # Every table in which the column goes by this name.
    waiting, seen = [owner], set[str]()
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        _edit_owner(snapshot, current, column, name, is_first=current == owner, edits=edits)
        if name.lower() in {n.lower() for n in snapshot.get_columns(current).names}:
            raise CannotRename(f"{current} has a column {name} already")
        for reader in iter_readers(project, current):
            uses = read_uses(snapshot, reader)
            if uses.is_partial:
                raise CannotRename(f"not all of {reader.file} is understood, which reads it")
            for mention in iter_mentions(snapshot, reader):
                if mention.owner == current and mention.column.lower() == column.lower():
                    edits[mention.place] = written
            slots = {s.start for s, read in zip(reader.slots, reader.reads, strict=True) if read == current}
            handed_on = [
                o
                for o in uses.outputs
                if isinstance(o.origin, TableColumn)
                and o.origin.slot in slots
                and o.origin.column.lower() == column.lower()
            ]
            if any(o.name is not None and o.name.lower() == column.lower() for o in handed_on):
                waiting.append(reader.name)
    return Renaming(edits)


def _edit_owner(
    snapshot: Snapshot, owner: str, column: str, name: str, is_first: bool, edits: dict[Place, str]
) -> None:
    """The names of a column in its own files: where it is made, where it is used there, in the header and in YAML."""
    assert snapshot.workspace is not None
    written = name if _NAME.fullmatch(name) else quote(name)
    node = snapshot.workspace.project.nodes.get(owner)
    for mention in iter_yaml_names(snapshot):
        if mention.table == owner and mention.column is not None and mention.column.lower() == column.lower():
            edits[mention.place] = _replace_end(snapshot, mention.place, mention.column, name)
    for other in snapshot.workspace.project:
        for table, foreign, _, place in iter_foreign_names(snapshot, other):
            if table == owner and foreign.lower() == column.lower():
                edits[place] = written
    if node is not None and node.type == "seed":
        header = find_seed_column(snapshot, node.file, column)
        if header is None or re.search(r"[,;\t|\"\n]", name):
            raise CannotRename(f"the header of {node.file} is not plain enough")
        edits[header] = name
        return
    if node is None or node.type != "model" or node.python:
        raise CannotRename(f"{owner} is not made by a query of this project: rename its column where it is made")
    uses = read_uses(snapshot, node)
    if uses.is_partial:
        raise CannotRename(f"not all of {node.file} is understood")
    folded = column.lower()
    output = next((o for o in uses.outputs if o.name is not None and o.name.lower() == folded), None)
    for key, place in iter_header_columns(snapshot, node):
        if key.lower() == folded:
            edits[place] = written
    if not is_first or output is None:
        return
    origin = output.origin
    if isinstance(origin, QueryColumn) and origin.start >= 0:
        spans = [(origin.start, origin.end), *((u.start, u.end) for u in uses.uses if u.origin == origin)]
        for start, end in spans:
            own = find_origin(node, start, end)
            if own is None:
                raise CannotRename(f"a macro or a function makes it in {node.file}")
            edits[own] = written
        return
    items = [u for u in uses.uses if u.is_item and u.origin == origin]
    item = find_origin(node, items[-1].start, items[-1].end) if len(items) == 1 else None
    if item is None:
        raise CannotRename(f"{node.file} hands it on: rename it where it is made, or give it a name there with AS")
    edits[item] = f"{snapshot.read_text(item.file)[item.start : item.end]} AS {written}"
