"""The parts of a query block that more than one proof looks at. Pure: a tree in, parts of it out."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from sqb.sql.functions.builtins import AGGREGATES, ORDERED_AGGREGATES

Column = tuple[str, str]


def is_plain_star(node: exp.Expr) -> bool:
    """Whether a node is a star without EXCEPT, REPLACE and the like, whatever is before it."""
    star = node.this if isinstance(node, exp.Column) else node
    return isinstance(star, exp.Star) and not any(star.args.values())


def has_aggregate(expression: exp.Expr) -> bool:
    """Whether an expression holds an aggregate of this block, and not just one in a window or a subquery."""
    stack: list[exp.Expr] = [expression]
    while stack:
        node = stack.pop()
        if isinstance(node, exp.Query):
            continue
        if isinstance(node, exp.Window):
            # The arguments of a window function may themselves be aggregates.
            stack.extend(node.this.iter_expressions())
            stack.extend(node.args.get("partition_by") or ())
            continue
        if isinstance(node, exp.AggFunc | exp.Any):
            return True
        if isinstance(node, exp.Func) and get_function_name(node) in AGGREGATES | ORDERED_AGGREGATES:
            return True
        stack.extend(node.iter_expressions())
    return False


def get_function_name(function: exp.Func) -> str:
    if isinstance(function, exp.Anonymous):
        return str(function.this).lower()
    names = function.sql_names() if hasattr(function, "sql_names") else []
    return names[0].lower() if names else ""


def list_block_expressions(select: exp.Select) -> list[exp.Expr]:
    """Everything in a block that is evaluated for rows or groups: the list, WHERE, HAVING, GROUP BY, ORDER BY."""
    expressions = list(select.expressions)
    for key in ("where", "having", "group", "order"):
        if select.args.get(key) is not None:
            expressions.append(select.args[key])
    return expressions


def iter_block_nodes(select: exp.Select, kind: type[exp.Expr]) -> Iterator[exp.Expr]:
    """Nodes of a kind that belong to this block and not to a query inside it."""
    stack: list[exp.Expr] = list(list_block_expressions(select))
    while stack:
        node = stack.pop()
        if isinstance(node, exp.Query):
            continue
        if isinstance(node, kind):
            yield node
        stack.extend(node.iter_expressions())


def iter_outermost_queries(*expressions: exp.Expr | None) -> Iterator[exp.Expr]:
    """The outermost queries inside expressions."""
    stack = [e for e in expressions if e is not None]
    while stack:
        node = stack.pop()
        if isinstance(node, exp.Query):
            yield node
        else:
            stack.extend(node.iter_expressions())


def get_where(select: exp.Select) -> exp.Expr | None:
    where = select.args.get("where")
    return where.this if where is not None else None


def iter_conjuncts(condition: exp.Expr | None) -> Iterator[exp.Expr]:
    if condition is None:
        return
    if isinstance(condition, exp.Paren):
        yield from iter_conjuncts(condition.this)
    elif isinstance(condition, exp.And):
        yield from iter_conjuncts(condition.left)
        yield from iter_conjuncts(condition.right)
    else:
        yield condition


def get_plain_column(node: exp.Expr | None) -> Column | None:
    """A plain qualified column, by (alias, name)."""
    if isinstance(node, exp.Paren):
        return get_plain_column(node.this)
    if isinstance(node, exp.Column) and node.table and not node.args.get("db") and not isinstance(node.this, exp.Star):
        return (node.table.lower(), node.name.lower())
    return None


def find_offset(node: exp.Expr) -> int | None:
    places = [i.meta["start"] for i in node.find_all(exp.Identifier) if "start" in i.meta]
    return min(places) if places else None
