"""Where an expression is in its text."""

from __future__ import annotations

from collections.abc import Iterator

from sqb.sql.columns.outline import (
    Call,
    Constant,
    Conversion,
    Expression,
    Field,
    Item,
    Lambda,
    Name,
    Opaque,
    Operation,
    Star,
)


def find_place(value: Expression) -> tuple[int, int]:
    """The half-open span from the first to the last part with a known place; (-1, -1) when none has one."""
    spans = [span for span in _iter_spans(value) if span[0] >= 0]
    return (min(s for s, _ in spans), max(e for _, e in spans)) if spans else (-1, -1)


def find_item_place(item: Item) -> tuple[int, int]:
    """Where a column of a SELECT list is: its alias, or what it is without one."""
    return (item.start, item.end) if item.start >= 0 else find_place(item.value)


def _iter_spans(value: Expression) -> Iterator[tuple[int, int]]:
    if isinstance(value, Name | Constant | Call | Field | Star):
        yield value.start, value.end
    for part in list_parts(value):
        yield from _iter_spans(part)


def list_parts(value: Expression) -> tuple[Expression, ...]:
    """The expressions in an expression; queries in it are others'."""
    match value:
        case Call():
            return value.arguments
        case Operation():
            return value.operands
        case Conversion() | Field():
            return (value.value,)
        case Lambda():
            return (value.body,)
        case Opaque():
            return value.parts
        case _:
            return ()
