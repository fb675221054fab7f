"""Lineage as a tree and as a Mermaid diagram."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from sqb.console.style import Paint
from sqb.inspect.lineage import LineageGraph, Ref, TableLineage
from sqb.operations.inspect.lineage import Lineage, collect_reachable

T = TypeVar("T")
# In the place of a column: the rows of a table, whose choice depends on a column.
_ROWS = ""


# --- trees --------------------------------------------------------------------------------------------------------


def format_lineage(lineage: Lineage, paint: Paint) -> Iterator[str]:
    """What is asked about, as lines of text."""
    graph, focus = lineage.graph, lineage.focus
    if focus.node is None:
        yield from _format_project(graph, paint)
    elif focus.column is None:
        yield from _format_table(graph, graph.tables[focus.node], paint)
    else:
        yield from _format_column(graph, (focus.node, focus.column), paint)


def _format_project(graph: LineageGraph, paint: Paint) -> Iterator[str]:
    below, visited = graph.map_downstream(), set[str]()
    for name, table in graph.tables.items():
        if not table.upstream:
            yield _format_label(table)
            yield from _format_tree(name, below.__getitem__, lambda n: _format_label(graph.tables[n]), paint, visited)


def _format_table(graph: LineageGraph, table: TableLineage, paint: Paint) -> Iterator[str]:
    below = graph.map_downstream()
    yield paint(table.name, "bold") + f" ({table.kind})"
    belongs = {"owner": table.owner, "group": table.group, "url": table.url}
    yield from (f"{key}: {value}" for key, value in belongs.items() if value)
    if table.upstream:
        yield "up"
        yield from _format_tree(
            table.name, lambda n: graph.tables[n].upstream, lambda n: _format_label(graph.tables[n]), paint
        )
    if below[table.name]:
        yield "down"
        yield from _format_tree(table.name, below.__getitem__, lambda n: _format_label(graph.tables[n]), paint)
    if table.columns:
        yield "columns"
        width = max(len(c) for c in table.columns)
        for column, refs in table.columns.items():
            yield f"   {column.ljust(width)} ← {_format_refs(refs)}" if refs else f"   {column}"
    if table.rows_from:
        yield f"rows chosen, joined or grouped by {_format_refs(table.rows_from)}"
    if table.unknown:
        yield paint(f"not all is known: {table.unknown}", "yellow")


def _format_column(graph: LineageGraph, ref: Ref, paint: Paint) -> Iterator[str]:
    below = graph.build_uses()
    yield paint(_format_ref(ref), "bold")
    if graph.get_origins(ref):
        yield "up"
        yield from _format_tree(ref, graph.get_origins, _format_ref, paint)
    if below(ref):
        yield "down"
        yield from _format_tree(ref, below, _format_ref, paint)
    above = {name for name, _ in collect_reachable(ref, graph.get_origins)}
    tables = [table for name, table in graph.tables.items() if name in above]
    for table in reversed(tables):
        if table.rows_from:
            yield paint(
                f"the rows of {table.name} are chosen, joined or grouped by {_format_refs(table.rows_from)}", "dim"
            )
    for table in tables:
        if table.unknown:
            yield paint(f"not all is known of {table.name}: {table.unknown}", "yellow")


def _format_tree(
    root: T,
    children: Callable[[T], Sequence[T]],
    label: Callable[[T], str],
    paint: Paint,
    seen: set[T] | None = None,
) -> Iterator[str]:
    """What is below a root, one line each; what was shown before is not shown again."""
    visited = set[T]() if seen is None else seen
    # A chain of models may be longer than calls can be nested.
    stack = _build_branches(children(root), "")
    while stack:
        child, indent, last = stack.pop()
        below = children(child)
        repeated = child in visited and bool(below)
        visited.add(child)
        more = paint(" (as above)", "dim") if repeated else ""
        yield f"{paint(indent + ('└─ ' if last else '├─ '), 'dim')}{label(child)}{more}"
        if not repeated:
            stack += _build_branches(below, indent + ("   " if last else "│  "))


def _build_branches(nodes: Sequence[T], indent: str) -> list[tuple[T, str, bool]]:
    """Nodes with how they are drawn, the first at the end."""
    return [(node, indent, index == 0) for index, node in enumerate(reversed(nodes))]


def _format_label(table: TableLineage) -> str:
    owner = table.owner or table.group
    return f"{table.name} ({table.kind}, {owner})" if owner else f"{table.name} ({table.kind})"


def _format_ref(ref: Ref) -> str:
    name, column = ref
    return f"{name}.{column}" if column != _ROWS else f"{name} (which rows it has)"


def _format_refs(refs: Iterable[Ref]) -> str:
    return ", ".join(_format_ref(ref) for ref in refs)


# --- diagrams -----------------------------------------------------------------------------------------------------


def format_mermaid(lineage: Lineage) -> Iterator[str]:
    """What is asked about as a Mermaid flowchart: tables, or for a column the columns in their tables."""
    graph, focus, part = lineage.graph, lineage.focus, lineage.list_columns()
    numbers = {name: f"n{i}" for i, name in enumerate(n for n in graph.tables if n in part)}
    yield "flowchart LR"
    if focus.column is None:
        for name, number in numbers.items():
            yield f'  {number}["{_escape(_format_label(graph.tables[name]))}"]'
        for name, number in numbers.items():
            yield from (f"  {numbers[u]} --> {number}" for u in graph.tables[name].upstream if u in numbers)
        return
    ids = {(name, c): f"{numbers[name]}c{i}" for name in numbers for i, c in enumerate(part[name])}
    for name, number in numbers.items():
        yield f'  subgraph {number}["{_escape(_format_label(graph.tables[name]))}"]'
        yield from (f'    {ids[name, c]}["{_escape(c)}"]' for c in part[name])
        yield "  end"
    for ref, target in ids.items():
        yield from (f"  {ids[r]} --> {target}" for r in graph.get_origins(ref) if r in ids)
    for name, number in numbers.items():
        yield from (f"  {ids[r]} -.-> {number}" for r in graph.tables[name].rows_from if r in ids)


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
