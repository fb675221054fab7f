"""Renaming a column, a model or a name of a query through the project: the edits, or why it is not done.

A column that a query hands on under its own name is renamed there too, down to where it gets another name. The project
with the edits must have no mistake that it does not have now: else nothing is renamed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqb.errors.base import SqbError
from sqb.lsp.header_columns import iter_header_columns
from sqb.lsp.model_names import iter_mentions, iter_readers, read_uses
from sqb.lsp.navigation import iter_references
from sqb.lsp.places import Place, find_origin
from sqb.lsp.snapshot import Snapshot
from sqb.lsp.symbols import ColumnSymbol, LocalSymbol, Symbol, TableSymbol, find_symbol
from sqb.names import quote
from sqb.sql.columns.uses import QueryColumn, TableColumn

_NAME = re.compile(r"[A-Za-z_]\w*")
Check = Callable[[Mapping[str, str]], Sequence[SqbError]]


class CannotRename(Exception):
    """Why something is not renamed."""


@dataclass(frozen=True, slots=True)
class Renaming:
    """Edits of texts by place, and a file that gets another name."""

    edits: Mapping[Place, str] = field(default_factory=dict)
    moved: tuple[str, str] | None = None

    def apply(self, snapshot: Snapshot) -> dict[str, str]:
        """The texts of the files that change."""
        texts: dict[str, str] = {}
        for place in sorted(self.edits, key=lambda p: (p.file, -p.start)):
            text = texts.get(place.file, snapshot.read_text(place.file))
            texts[place.file] = text[: place.start] + self.edits[place] + text[place.end :]
        return texts


def find_renamed(snapshot: Snapshot, path: str, offset: int) -> tuple[Symbol, Place] | None:
    """What would be renamed at an offset, and the span that names it."""
    found = find_symbol(snapshot, path, offset)
    return found if found is not None and isinstance(found[0], TableSymbol | ColumnSymbol | LocalSymbol) else None


def rename(snapshot: Snapshot, path: str, offset: int, name: str, check: Check) -> Renaming:
    """The edits that give what is at an offset another name; `CannotRename` where that is not safe."""
    found = find_renamed(snapshot, path, offset)
    if found is None or snapshot.workspace is None:
        raise CannotRename("only models, columns and names of a query can be renamed")
    if not snapshot.is_compiled_from(path):
        raise CannotRename("the text has a mistake: mend it first")
    symbol = found[0]
    match symbol:
        case TableSymbol(node):
            renaming = _rename_model(snapshot, node, name)
        case ColumnSymbol(owner, column):
            renaming = _rename_column(snapshot, owner, column, name)
        case _:
            written = name if _NAME.fullmatch(name) else quote(name)
            renaming = Renaming(dict.fromkeys(iter_references(snapshot, symbol), written))
    _refuse_mistakes(snapshot, renaming, check)
    return renaming


def _refuse_mistakes(snapshot: Snapshot, renaming: Renaming, check: Check) -> None:
    texts = {**snapshot.texts, **renaming.apply(snapshot)}
    if renaming.moved is not None:
        # The file is not moved yet: what reads it by its new name is checked when it is.
        return
    before = {(e.code, e.message) for e in snapshot.errors}
    new = [e for e in check(texts) if (e.code, e.message) not in before]
    if new:
        raise CannotRename(f"it would be a mistake: {new[0].at}: {new[0].message}")


def _rename_model(snapshot: Snapshot, node_name: str, name: str) -> Renaming:
    assert snapshot.workspace is not None
    project = snapshot.workspace.project
    node = project.nodes.get(node_name)
    if node is None or node.type != "model" or node.python:
        raise CannotRename("only models in models/ can be renamed here")
    if not _NAME.fullmatch(name):
        raise CannotRename("the name of a model has letters, digits and underscores")
    folder = node_name.rpartition(".")[0]
    if any(other.lower() == f"{folder}.{name}".lower() for other in project.nodes):
        raise CannotRename(f"there is a model {folder}.{name} already")
    old = node_name.rpartition(".")[2]
    edits: dict[Place, str] = {}
    for reader in iter_readers(project, node_name):
        for slot, read in zip(reader.slots, reader.reads, strict=True):
            if read != node_name:
                continue
            place = find_origin(reader, slot.start, slot.end)
            if place is None:
                raise CannotRename(f"{reader.file} reads it through a macro or a function")
            written = snapshot.read_text(place.file)[place.start : place.end]
            if not written.replace("`", "").lower().endswith(old.lower()):
                raise CannotRename(f"{reader.file} calls it {written}")
            if slot.alias is not None and slot.qualifiers:
                raise CannotRename(f"{reader.file} names its columns by its name: give it an alias there first")
            cut = written.lower().rindex(old.lower())
            edits[place] = f"{written[:cut]}{name}{written[cut + len(old) :]}"
    return Renaming(edits, (node.file, f"{node.file.rpartition('/')[0]}/{name}.sql"))


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
        _edit_owner(snapshot, current, column, written, is_first=current == owner, edits=edits)
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
    snapshot: Snapshot, owner: str, column: str, written: str, is_first: bool, edits: dict[Place, str]
) -> None:
    """The names of a column in its own model: where it is made, where it is used there, and in the header."""
    assert snapshot.workspace is not None
    node = snapshot.workspace.project.nodes.get(owner)
    if node is None or node.type != "model":
        raise CannotRename(f"{owner} is not a model: rename its column where it is made")
    uses = read_uses(snapshot, node)
    if uses.is_partial:
        raise CannotRename(f"not all of {node.file} is understood")
    folded = column.lower()
    output = next((o for o in uses.outputs if o.name is not None and o.name.lower() == folded), None)
    for header, place in iter_header_columns(snapshot, node):
        if header.lower() == folded:
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
