"""Where things are defined, and where they are used."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqb.lsp.header_columns import iter_foreign_names, iter_header_columns
from sqb.lsp.model_names import find_output_place, iter_mentions, iter_readers, read_uses
from sqb.lsp.places import Place, find_origin, find_place, to_offset
from sqb.lsp.python_names import find_python_function, list_macros
from sqb.lsp.snapshot import Snapshot
from sqb.lsp.symbols import (
    ColumnSymbol,
    LocalSymbol,
    Symbol,
    TableSymbol,
    WordSymbol,
    find_audit,
    find_seed_column,
    find_symbol,
    trace_column,
)
from sqb.lsp.yaml_names import iter_yaml_names
from sqb.project.files import PROJECT_FILE
from sqb.sql.columns.uses import QueryColumn
from sqb.sql.text.lexer import strip_quotes, tokenize, tokenize_code


def find_definition(snapshot: Snapshot, path: str, offset: int) -> list[Place]:
    """Where what is at an offset is defined."""
    symbol = find_symbol(snapshot, path, offset)
    return list(locate_definition(snapshot, symbol[0])) if symbol is not None else []


def find_references(snapshot: Snapshot, path: str, offset: int, with_definition: bool = True) -> list[Place]:
    """Everywhere in the project that what is at an offset is named."""
    symbol = find_symbol(snapshot, path, offset)
    if symbol is None and snapshot.find_node(path) is not None:
        node = snapshot.find_node(path)
        symbol = (TableSymbol(node.name), Place(path, 0, 0)) if node is not None else None
    if symbol is None:
        return []
    places = list(iter_references(snapshot, symbol[0]))
    defined = list(locate_definition(snapshot, symbol[0]))
    places = [*defined, *places] if with_definition else [p for p in places if p not in defined]
    return list(dict.fromkeys(places))


def locate_definition(snapshot: Snapshot, symbol: Symbol) -> Iterator[Place]:
    """The places where a symbol is defined."""
    project = snapshot.workspace.project if snapshot.workspace is not None else None
    match symbol:
        case LocalSymbol(_, place):
            yield place
        case TableSymbol(name) if project is not None:
            node, source = project.nodes.get(name), project.sources.get(name)
            if node is not None:
                yield Place(node.file, 0, 0)
            elif source is not None and source.function is not None:
                yield from _locate_python_function(snapshot, source.function.file, source.function.symbol)
            elif source is not None:
                yield find_place(snapshot.read_text(source.at.file), source.at)
        case ColumnSymbol() if project is not None:
            yield from _locate_column(snapshot, symbol)
        case WordSymbol("macro", name):
            for macro in list_macros(snapshot):
                if macro.name == name:
                    start = to_offset(snapshot.read_text(macro.file), macro.line - 1, macro.column)
                    yield Place(macro.file, start, start + len(name))
        case WordSymbol("function", name):
            yield from _locate_function(snapshot, name)
        case WordSymbol("check", name) if (file := find_audit(snapshot, name)) is not None:
            yield Place(file, 0, 0)
        case WordSymbol("variable", name):
            match_ = re.search(rf"(?m)^[ \t]*{re.escape(name)}[ \t]*=", snapshot.read_text(PROJECT_FILE))
            if match_ is not None:
                yield Place(PROJECT_FILE, match_.start(), match_.end() - 1)


def _locate_column(snapshot: Snapshot, symbol: ColumnSymbol) -> Iterator[Place]:
    assert snapshot.workspace is not None
    project = snapshot.workspace.project
    node, source = project.nodes.get(symbol.owner), project.sources.get(symbol.owner)
    if node is not None and node.type == "seed":
        place = find_seed_column(snapshot, node.file, symbol.column)
        yield place or Place(node.file, 0, 0)
    elif node is not None:
        place = find_output_place(snapshot, node, symbol.column)
        above = trace_column(snapshot, symbol) if place is None else None
        if place is not None:
            yield place
        elif above is not None:
            # A star hands it on: it is named further up.
            yield from _locate_column(snapshot, above)
        else:
            yield Place(node.file, 0, 0)
    elif source is not None:
        yield find_place(snapshot.read_text(source.at.file), source.at)


def _locate_function(snapshot: Snapshot, name: str) -> Iterator[Place]:
    for function in snapshot.workspace.project.functions if snapshot.workspace else ():
        if function.name.lower() != name.lower():
            continue
        if function.language == "python":
            places = list(_locate_python_function(snapshot, function.file, function.symbol or function.name))
            if places:
                yield from places
                continue
        words = tokenize_code(snapshot.read_text(function.file))
        token = next((t for t in words if strip_quotes(t).lower() == name.lower()), None)
        yield Place(function.file, token.start, token.end) if token is not None else Place(function.file, 0, 0)


def _locate_python_function(snapshot: Snapshot, file: str, symbol: str) -> Iterator[Place]:
    function = find_python_function(snapshot, file, symbol)
    if function is not None:
        start = to_offset(snapshot.read_text(function.file), function.line - 1, function.column)
        yield Place(function.file, start, start + len(function.name))


def iter_references(snapshot: Snapshot, symbol: Symbol) -> Iterator[Place]:
    """Every place of SQL and YAML that names a symbol, its definitions among them where they are names."""
    if snapshot.workspace is None:
        return
    project = snapshot.workspace.project
    match symbol:
        case TableSymbol(name):
            for node in iter_readers(project, name):
                for slot, read in zip(node.slots, node.reads, strict=True):
                    place = find_origin(node, slot.start, slot.end) if read == name else None
                    if place is not None:
                        yield place
            for node in project:
                yield from (named for table, _, named, _ in iter_foreign_names(snapshot, node) if table == name)
            yield from (n.place for n in iter_yaml_names(snapshot) if n.table == name and n.column is None)
        case ColumnSymbol(owner, column):
            yield from iter_column_references(snapshot, owner, column)
        case LocalSymbol():
            yield from _iter_local(snapshot, symbol)
        case WordSymbol(kind, name) if kind in ("macro", "function", "variable"):
            yield from _iter_words(snapshot, kind, name)
        case _:
            return


def iter_column_references(snapshot: Snapshot, owner: str, column: str) -> Iterator[Place]:
    """Every name of a column: in its own model and header, and in the queries that read it."""
    assert snapshot.workspace is not None
    project, folded = snapshot.workspace.project, column.lower()
    own = project.nodes.get(owner)
    if own is not None and own.type == "model":
        place = find_output_place(snapshot, own, column)
        if place is not None:
            yield place
        for use in read_uses(snapshot, own).uses:
            output = use.origin
            if (
                isinstance(output, QueryColumn)
                and output.name.lower() == folded
                and _is_result(snapshot, owner, output)
            ):
                used = find_origin(own, use.start, use.end)
                if used is not None:
                    yield used
        yield from (p for name, p in iter_header_columns(snapshot, own) if name.lower() == folded)
    for node in iter_readers(project, owner):
        for mention in iter_mentions(snapshot, node):
            if mention.owner == owner and mention.column.lower() == folded:
                yield mention.place
    if own is not None and own.type == "seed" and (header := find_seed_column(snapshot, own.file, column)) is not None:
        yield header
    for node in project:
        for table, foreign, _, place in iter_foreign_names(snapshot, node):
            if table == owner and foreign.lower() == folded:
                yield place
    for name in iter_yaml_names(snapshot):
        if name.table == owner and name.column is not None and name.column.lower() == folded:
            yield name.place


def _is_result(snapshot: Snapshot, owner: str, column: QueryColumn) -> bool:
    assert snapshot.workspace is not None
    return any(o.origin == column for o in read_uses(snapshot, snapshot.workspace.project.nodes[owner]).outputs)


def _iter_local(snapshot: Snapshot, symbol: LocalSymbol) -> Iterator[Place]:
    node = snapshot.find_node(symbol.place.file)
    yield symbol.place
    if symbol.is_column and node is not None:
        for use in read_uses(snapshot, node).uses:
            if isinstance(use.origin, QueryColumn):
                defined = find_origin(node, use.origin.start, use.origin.end) if use.origin.start >= 0 else None
                place = find_origin(node, use.start, use.end)
                if defined == symbol.place and place is not None:
                    yield place
    elif not symbol.is_column:
        for token in tokenize_code(snapshot.read_text(symbol.place.file)):
            if token.kind in ("word", "quoted") and strip_quotes(token).lower() == symbol.name.lower():
                yield Place(symbol.place.file, token.start, token.end)


def _iter_words(snapshot: Snapshot, kind: str, name: str) -> Iterator[Place]:
    assert snapshot.workspace is not None
    marks = {"macro": "@", "variable": "@@"}
    wanted = (marks.get(kind, "") + name).lower()
    for node in snapshot.workspace.project:
        text = snapshot.read_text(node.file) if node.type == "model" and not node.python else ""
        if wanted not in text.lower():
            continue
        for token in tokenize(text):
            is_called = kind != "function" or text[token.end :].lstrip()[:1] == "("
            if token.kind in ("word", "macro", "variable") and token.text.lower() == wanted and is_called:
                yield Place(node.file, token.start, token.end)
