"""The tables that a query names, the alias that each needs, and the column qualifiers that have to follow it.

A reference is replaced by a relation with another name, so that it gets its own last name as an alias. Where two
tables with one last name can be seen from one place, both get longer aliases, and what names their columns is
rewritten; everywhere else the author's own qualifiers go on to work as they stand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from sqb.sql.text.fallback import build_dynamic_name_problem
from sqb.sql.text.spans import Reference


@dataclass(slots=True)
class _Table:
    """A table as the columns around it can name it; `reference` only where it is one and has no alias of its own."""

    names: tuple[str, ...]
    select: exp.Expr | None
    reference: Reference | None = None
    alias: str | None = None
    qualifiers: list[tuple[int, int]] = field(default_factory=list)


def find_references(tree: exp.Expr, forced: Mapping[int, str]) -> tuple[Reference, ...]:
    """Every table that the query reads and does not define itself, in the order of the text."""
    tables = [_build_table(node, own, forced) for node, own in _list_tables(tree)]
    by_select: dict[int, list[_Table]] = {}
    for table in tables:
        by_select.setdefault(id(table.select), []).append(table)
    visibility = _Visibility(by_select)
    for table in tables:
        if table.reference is not None and table.reference.alias is not None:
            table.alias = "__".join(table.reference.parts) if visibility.has_clash(table) else table.reference.parts[-1]
    _record_qualifiers(tree, visibility)
    return tuple(
        Reference(r.parts, r.start, r.end, t.alias, tuple(t.qualifiers), r.kind, r.is_pinned)
        for t in tables
        if (r := t.reference) is not None
    )


def _list_tables(tree: exp.Expr) -> list[tuple[exp.Table, bool]]:
    """The query's tables by their place in the text, and whether each is one of its own CTEs."""
    tables: list[tuple[exp.Table, bool]] = []
    stack: list[tuple[exp.Expr, frozenset[str]]] = [(tree, frozenset())]
    while stack:
        node, shadowed = stack.pop()
        if isinstance(node, exp.Hint):
            continue
        if isinstance(node, exp.Table):
            tables.append((node, node.args.get("db") is None and node.name.lower() in shadowed))
        with_ = node.args.get("with_")
        if with_ is not None:
            for cte in with_.expressions:
                cte_names = {cte.alias.lower()} if with_.args.get("recursive") else set()
                stack.append((cte.this, shadowed | cte_names))
                shadowed = shadowed | {cte.alias.lower()}
        stack.extend((child, shadowed) for child in node.iter_expressions() if child is not with_)
    return sorted(tables, key=lambda pair: _find_position(pair[0]))


def _find_position(table: exp.Table) -> int:
    return min((i.meta["start"] for i in table.find_all(exp.Identifier) if "start" in i.meta), default=0)


def _build_table(table: exp.Table, is_cte: bool, forced: Mapping[int, str]) -> _Table:
    select = table.find_ancestor(exp.Select)
    alias = table.args.get("alias")
    alias_name = alias.name if isinstance(alias, exp.TableAlias) and alias.this is not None else ""
    parts = table.parts
    plain = all(isinstance(p, exp.Identifier) and "start" in p.meta for p in parts)
    if is_cte or not plain:
        _refuse_dynamic(table)
        return _Table((table.alias_or_name.lower(),), select)
    start, end = parts[0].meta["start"], parts[-1].meta["end"] + 1
    fixed = table.args.get("version") is not None or table.args.get("when") is not None
    # An alias cannot be before VERSION AS OF or TABLESAMPLE.
    own_name = None if alias_name or fixed or table.args.get("sample") else parts[-1].name
    reference = Reference(tuple(p.name for p in parts), start, end, own_name, (), forced.get(start), fixed)
    names = (alias_name.lower(),) if alias_name else tuple(p.name.lower() for p in parts)
    return _Table(names, select, reference)


def _refuse_dynamic(table: exp.Table) -> None:
    if isinstance(table.this, exp.Anonymous) and table.this.name.upper() == "IDENTIFIER":
        raise build_dynamic_name_problem(0, 1)


class _Visibility:
    """Which tables a place in the query can name: those of its own SELECT, then those of the ones around it."""

    def __init__(self, by_select: dict[int, list[_Table]]) -> None:
        self.by_select = by_select
        self._outer: dict[int, tuple[exp.Expr, ...]] = {}

    def iter_scopes(self, select: exp.Expr | None) -> Iterator[list[_Table]]:
        yield self.by_select.get(id(select), [])
        for outer in self.list_outer_selects(select):
            yield self.by_select.get(id(outer), [])

    def list_outer_selects(self, select: exp.Expr | None) -> tuple[exp.Expr, ...]:
        """The SELECTs around one that it may be correlated with: not through a CTE or a derived table."""
        if select is None:
            return ()
        if id(select) not in self._outer:
            self._outer[id(select)] = tuple(_iter_enclosing_selects(select))
        return self._outer[id(select)]

    def has_clash(self, table: _Table) -> bool:
        visible_tables = [t for scope in self.iter_scopes(table.select) for t in scope]
        inner = [
            t
            for tables in self.by_select.values()
            for t in tables
            if any(s is table.select for s in self.list_outer_selects(t.select))
        ]
        return any(t.names[-1] == table.names[-1] and t.names != table.names for t in (*visible_tables, *inner))


def _iter_enclosing_selects(select: exp.Expr) -> Iterator[exp.Expr]:
    node, lateral = select, False
    while (parent := node.parent) is not None:
        if isinstance(parent, exp.CTE) or (isinstance(parent, exp.From | exp.Join) and not lateral):
            return
        lateral = isinstance(parent, exp.Lateral)
        if isinstance(parent, exp.Select):
            yield parent
        node = parent


def _record_qualifiers(tree: exp.Expr, visibility: _Visibility) -> None:
    """Note the qualifiers of columns that the new aliases would leave without a table."""
    for column in tree.find_all(exp.Column):
        parts = [p for p in (column.args.get("catalog"), column.args.get("db"), column.args.get("table")) if p]
        if not parts or not all("start" in p.meta for p in parts) or column.find_ancestor(exp.Hint):
            continue
        names = tuple(p.name.lower() for p in parts)
        for scope in visibility.iter_scopes(column.find_ancestor(exp.Select)):
            length, table = _resolve_qualifier(names, scope)
            if table is None:
                continue
            if table.alias is not None and (length > 1 or table.alias.lower() != table.names[-1]):
                table.qualifiers.append((parts[0].meta["start"], parts[length - 1].meta["end"] + 1))
            break


def _resolve_qualifier(names: tuple[str, ...], scope: list[_Table]) -> tuple[int, _Table | None]:
    """The table of a SELECT that a qualifier means, and how many of its names mean it; the rest are fields."""
    for length in range(len(names), 0, -1):
        qualifier = names[:length]
        matches = [table for table in scope if table.names[-length:] == qualifier]
        if matches:
            return length, next((table for table in matches if table.names == qualifier), matches[0])
    return 0, None
