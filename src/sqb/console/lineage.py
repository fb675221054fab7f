"""Lineage as a tree, as a JSON document and as a Mermaid diagram."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from sqb.build.lineage import Focus, Graph, Ref, Traced
from sqb.console.paint import Paint

T = TypeVar("T")
# In the place of a column: the rows of a table, whose choice depends on a column.
_ROWS = ""


# --- trees --------------------------------------------------------------------------------------------------------


def lineage_lines(graph: Graph, focus: Focus, paint: Paint) -> Iterator[str]:
    """What is asked about, as lines of text."""
    if focus.node is None:
        yield from _project_lines(graph, paint)
    elif focus.column is None:
        yield from _table_lines(graph, graph.tables[focus.node], paint)
    else:
        yield from _column_lines(graph, (focus.node, focus.column), paint)


def _project_lines(graph: Graph, paint: Paint) -> Iterator[str]:
    below, seen = graph.downstream(), set[str]()
    for name, one in graph.tables.items():
        if not one.upstream:
            yield _label(one)
            yield from _tree(name, below.__getitem__, lambda n: _label(graph.tables[n]), paint, seen)


def _table_lines(graph: Graph, one: Traced, paint: Paint) -> Iterator[str]:
    below = graph.downstream()
    yield paint(one.name, "bold") + f" ({one.kind})"
    if one.upstream:
        yield "up"
        yield from _tree(one.name, lambda n: graph.tables[n].upstream, lambda n: _label(graph.tables[n]), paint)
    if below[one.name]:
        yield "down"
        yield from _tree(one.name, below.__getitem__, lambda n: _label(graph.tables[n]), paint)
    if one.columns:
        yield "columns"
        width = max(len(c) for c in one.columns)
        for column, refs in one.columns.items():
            yield f"   {column.ljust(width)} ← {_listed(refs)}" if refs else f"   {column}"
    if one.rows_from:
        yield f"rows chosen, joined or grouped by {_listed(one.rows_from)}"
    if one.unknown:
        yield paint(f"not all is known: {one.unknown}", "yellow")


def _column_lines(graph: Graph, ref: Ref, paint: Paint) -> Iterator[str]:
    below = graph.uses()
    yield paint(_text(ref), "bold")
    if graph.made_of(ref):
        yield "up"
        yield from _tree(ref, graph.made_of, _text, paint)
    if below(ref):
        yield "down"
        yield from _tree(ref, below, _text, paint)
    above = {name for name, _ in reach(ref, graph.made_of)}
    tables = [one for name, one in graph.tables.items() if name in above]
    for one in reversed(tables):
        if one.rows_from:
            yield paint(f"the rows of {one.name} are chosen, joined or grouped by {_listed(one.rows_from)}", "dim")
    for one in tables:
        if one.unknown:
            yield paint(f"not all is known of {one.name}: {one.unknown}", "yellow")


def _tree(
    root: T,
    children: Callable[[T], Sequence[T]],
    label: Callable[[T], str],
    paint: Paint,
    seen: set[T] | None = None,
) -> Iterator[str]:
    """What is below a root, one line each; what was shown before is not shown again."""
    shown = set[T]() if seen is None else seen
    # A chain of models may be longer than calls can be nested.
    stack = _branches(children(root), "")
    while stack:
        child, indent, last = stack.pop()
        below = children(child)
        repeated = child in shown and bool(below)
        shown.add(child)
        more = paint(" (as above)", "dim") if repeated else ""
        yield f"{paint(indent + ('└─ ' if last else '├─ '), 'dim')}{label(child)}{more}"
        if not repeated:
            stack += _branches(below, indent + ("   " if last else "│  "))


def _branches(nodes: Sequence[T], indent: str) -> list[tuple[T, str, bool]]:
    """Nodes with how they are drawn, the first at the end."""
    return [(node, indent, index == 0) for index, node in enumerate(reversed(nodes))]


def reach(start: T, step: Callable[[T], Iterable[T]]) -> list[T]:
    """Everything that steps lead to, itself first."""
    found: dict[T, None] = {}
    stack = [start]
    while stack:
        one = stack.pop()
        if one not in found:
            found[one] = None
            stack.extend(step(one))
    return list(found)


def _label(one: Traced) -> str:
    return f"{one.name} ({one.kind})"


def _text(ref: Ref) -> str:
    name, column = ref
    return f"{name}.{column}" if column != _ROWS else f"{name} (which rows it has)"


def _listed(refs: Iterable[Ref]) -> str:
    return ", ".join(_text(ref) for ref in refs)


# --- documents ----------------------------------------------------------------------------------------------------


def lineage_data(graph: Graph, focus: Focus) -> dict[str, Any]:
    """What is asked about as plain data: its tables in the order in which they are built."""
    part = _part(graph, focus)
    return {
        "target": graph.target,
        "focus": {"node": focus.node, "column": focus.column} if focus.node else None,
        "nodes": [
            {
                "name": one.name,
                "type": one.type,
                "kind": one.kind,
                "relation": str(one.relation),
                "file": one.file or None,
                "upstream": [n for n in one.upstream if n in part],
                "columns": [{"name": c, "from": _refs_data(one.columns[c])} for c in part[name]],
                "rows_from": _refs_data(one.rows_from),
                "unknown": one.unknown or None,
            }
            for name, one in graph.tables.items()
            if name in part
        ],
    }


def _refs_data(refs: Iterable[Ref]) -> list[dict[str, str]]:
    return [{"node": name, "column": column} for name, column in refs]


def _part(graph: Graph, focus: Focus) -> dict[str, list[str]]:
    """The tables that what is asked about leads to, up and down, each with the columns that count."""
    if focus.node is None:
        return {name: list(one.columns) for name, one in graph.tables.items()}
    if focus.column is None:
        below = graph.downstream()
        names = {*reach(focus.node, lambda n: graph.tables[n].upstream), *reach(focus.node, below.__getitem__)}
        return {name: list(one.columns) for name, one in graph.tables.items() if name in names}
    ref = (focus.node, focus.column)
    refs = {*reach(ref, graph.made_of), *reach(ref, graph.uses())}
    found: dict[str, list[str]] = {name: [] for name, _ in refs}
    for name, one in graph.tables.items():
        found |= {name: [c for c in one.columns if (name, c) in refs]} if name in found else {}
    return found


# --- diagrams -----------------------------------------------------------------------------------------------------


def mermaid_lines(graph: Graph, focus: Focus) -> Iterator[str]:
    """What is asked about as a Mermaid flowchart: tables, or for a column the columns in their tables."""
    part = _part(graph, focus)
    numbers = {name: f"n{i}" for i, name in enumerate(n for n in graph.tables if n in part)}
    yield "flowchart LR"
    if focus.column is None:
        for name, number in numbers.items():
            yield f'  {number}["{_escaped(_label(graph.tables[name]))}"]'
        for name, number in numbers.items():
            yield from (f"  {numbers[u]} --> {number}" for u in graph.tables[name].upstream if u in numbers)
        return
    ids = {(name, c): f"{numbers[name]}c{i}" for name in numbers for i, c in enumerate(part[name])}
    for name, number in numbers.items():
        yield f'  subgraph {number}["{_escaped(_label(graph.tables[name]))}"]'
        yield from (f'    {ids[name, c]}["{_escaped(c)}"]' for c in part[name])
        yield "  end"
    for ref, one in ids.items():
        yield from (f"  {ids[r]} --> {one}" for r in graph.made_of(ref) if r in ids)
    for name, number in numbers.items():
        yield from (f"  {ids[r]} -.-> {number}" for r in graph.tables[name].rows_from if r in ids)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
