"""What a query's tree says about words before brackets, and about columns that have no name."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sqb.sql.analysis.parse import parse_tree
from sqb.sql.analysis.query import QueryProblem


@dataclass(frozen=True, slots=True)
class CallPlaces:
    """Offsets of words: names of tables and queries, calls in the place of a table, calls in columns without a name."""

    names: frozenset[int]
    tables: frozenset[int]
    unnamed: frozenset[int]


def find_call_places(text: str) -> CallPlaces | None:
    """The places in a query; None when sqlglot does not read it."""
    try:
        tree = parse_tree(text)
    except QueryProblem:
        return None
    names, tables, unnamed = set(), set(), set()
    for node in tree.walk():
        start = node.meta.get("start")
        if start is None:
            continue
        if isinstance(node, exp.Identifier) and isinstance(node.parent, exp.TableAlias | exp.Table | exp.Column):
            names.add(start)
        elif isinstance(node, exp.Func) and _is_table_call(node):
            tables.add(start)
        elif isinstance(node, exp.Func) and _is_unnamed(node):
            unnamed.add(start)
    return CallPlaces(frozenset(names), frozenset(tables), frozenset(unnamed))


def _is_table_call(call: exp.Expr) -> bool:
    """Whether a call is read as a table; LATERAL VIEW takes functions of rows that Spark has itself."""
    parent = call.parent
    lateral = isinstance(parent, exp.Lateral) and not parent.args.get("view")
    return call.arg_key == "this" and (isinstance(parent, exp.Table) or lateral)


def _is_unnamed(call: exp.Expr) -> bool:
    """Whether the column that a call is part of would be called by its expression."""
    node = call
    while node.parent is not None and not isinstance(node.parent, exp.Select):
        if isinstance(node.parent, exp.Query):
            return False
        node = node.parent
    if node.parent is None or node.arg_key != "expressions":
        return False
    return not isinstance(node, exp.Alias | exp.Aliases)
