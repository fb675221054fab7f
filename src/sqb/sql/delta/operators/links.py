"""What of a block's conditions concerns its sources: equal columns of two of them, and what WHERE asks of one alone.

By equal columns a change of one source tells which rows of another are read at all; by WHERE, which rows of the change
matter. What is not proven here is read whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sqb.sql.delta.operators.column_sources import ColumnSources
from sqb.sql.delta.operators.model import Link
from sqb.sql.delta.skeleton.model import Block, JoinType, Span
from sqb.sql.delta.skeleton.read import tokens_within
from sqb.sql.delta.tree import get_where, iter_conjuncts
from sqb.sql.text.lexer import Token

# Their rows are never filled with NULLs, as long as no RIGHT or FULL JOIN is near.
_INNER: tuple[JoinType, ...] = ("FROM", "INNER", "CROSS")


def read_links(
    block: Block, node: exp.Select, columns: ColumnSources, kinds: Sequence[Mapping[str, str]]
) -> tuple[Link, ...]:
    """The links of a block, whose sources have columns of these types; none of a source that is not a table."""
    joins = [source.join for source in block.sources]
    if block.laterals is not None or "RIGHT" in joins or "FULL" in joins:
        return ()
    inner = {number for number, join in enumerate(joins) if join in _INNER}
    links = []
    for number, condition in _list_conditions(block, node):
        for one, other in _iter_equal_columns(block, condition, columns):
            if _is_one_type(kinds, one, other):
                # What an outer join finds no row for is filled with NULLs: its condition says nothing of the others.
                restricted = inner if number is None else {number}
                pairs = ((one, other), (other, one))
                links += [Link(source, by) for source, by in pairs if source[0] in restricted and by[0] in inner]
    return tuple(dict.fromkeys(links))


def read_filters(text: str, block: Block, node: exp.Select, columns: ColumnSources) -> tuple[tuple[int, str], ...]:
    """The parts of WHERE that read the columns of one source alone, each with the source's number."""
    joins, condition = [source.join for source in block.sources], get_where(node)
    if condition is None or block.where is None or "RIGHT" in joins or "FULL" in joins:
        return ()
    spans, nodes = _split_conjuncts(text, block.where), list(_iter_parts(condition))
    if len(spans) != len(nodes) or not all(map(_is_same, (span.cut(text) for span in spans), nodes)):
        return ()
    filters = []
    for span in spans:
        places = columns.list_columns(span)
        aliases = {alias for _, alias in places}
        numbers = [i for i, source in enumerate(block.sources) if aliases == {source.alias} and joins[i] in _INNER]
        is_own = not any(columns.is_outer(offset) for offset, _ in places)
        if len(numbers) == 1 and is_own and not any(span.covers(query.span) for query in block.subqueries):
            filters.append((numbers[0], span.cut(text)))
    return tuple(filters)


def _split_conjuncts(text: str, where: Span) -> list[Span]:
    """The parts of a condition between ANDs, outside of brackets; one that holds OR or CASE is not split."""
    tokens = tokens_within(text, where)
    words = [t.text.upper() if t.kind == "word" else "" for t in tokens]
    depth, pending = 0, 0
    parts: list[list[Token]] = [[]]
    for token, word in zip(tokens, words, strict=True):
        depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
        ends = word if not depth else ""
        if ends in ("OR", "CASE"):
            return [where]
        if ends == "AND" and not pending:
            parts.append([])
            continue
        pending += (ends == "BETWEEN") - (ends == "AND")
        parts[-1].append(token)
    return [Span(part[0].start, part[-1].end) for part in parts if part]


def _iter_parts(condition: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(condition, exp.And):
        yield from _iter_parts(condition.left)
        yield from _iter_parts(condition.right)
    else:
        yield condition


def _is_same(part: str, node: exp.Expr) -> bool:
    """Whether a part of the text, read by itself, is what the whole query has there."""
    try:
        parsed = get_where(sqlglot.parse_one(f"SELECT 1 WHERE {part}", dialect="spark"))  # type: ignore[arg-type]
    except (SqlglotError, RecursionError):
        return False
    return parsed == node


def _list_conditions(block: Block, node: exp.Select) -> list[tuple[int | None, exp.Expr | None]]:
    """WHERE and the conditions of joins; those of LEFT joins with the number of the source that they are about."""
    conditions: list[tuple[int | None, exp.Expr | None]] = [(None, get_where(node))]
    for number, join in enumerate(node.args.get("joins") or (), start=1):
        if number < len(block.sources) and block.sources[number].join in (*_INNER, "LEFT"):
            is_left = block.sources[number].join == "LEFT"
            conditions.append((number if is_left else None, join.args.get("on")))
    return conditions


def _iter_equal_columns(
    block: Block, condition: exp.Expr | None, columns: ColumnSources
) -> Iterator[tuple[tuple[int, str], tuple[int, str]]]:
    for conjunct in iter_conjuncts(condition):
        if isinstance(conjunct, exp.EQ):
            one, other = (_find_column(block, side, columns) for side in (conjunct.left, conjunct.right))
            if one is not None and other is not None and one[0] != other[0]:
                yield one, other


def _find_column(block: Block, node: exp.Expr, columns: ColumnSources) -> tuple[int, str] | None:
    """The source and the name of a plain column; None for anything else."""
    if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
        return None
    offset = node.this.meta.get("start")
    if offset is None or columns.is_outer(offset):
        return None
    aliases = [alias for _, alias in columns.list_columns(Span(offset, offset + 1))]
    numbers = [i for i, source in enumerate(block.sources) if aliases == [source.alias]]
    return (numbers[0], node.name.lower()) if len(numbers) == 1 else None


def _is_one_type(kinds: Sequence[Mapping[str, str]], one: tuple[int, str], other: tuple[int, str]) -> bool:
    """Whether equal values of two columns are one value: with casts between them, 1 equals '1' and '01'."""
    types = [kinds[number].get(name) for number, name in (one, other)]
    return types[0] is not None and types[0] == types[1]
