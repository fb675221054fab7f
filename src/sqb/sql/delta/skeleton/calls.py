"""Calls of aggregates and window functions in a block, found on its tokens."""

from __future__ import annotations

from sqb.sql.delta.skeleton.model import Block, Query, Span
from sqb.sql.delta.skeleton.read import tokens_within
from sqb.sql.functions.builtins import AGGREGATES, ORDERED_AGGREGATES
from sqb.sql.text.lexer import find_closing


def is_aggregating(text: str, block: Block) -> bool:
    """Whether a block makes groups, or one row of all rows."""
    if block.group is not None or block.having is not None:
        return True
    return any(list_aggregate_calls(text, item, block.subqueries) for item in block.items)


def has_window(text: str, block: Block) -> bool:
    """Whether a block has window functions."""
    return any(
        t.kind == "word" and t.text.upper() == "OVER" and not _is_inside(t.start, block.subqueries)
        for span in block.result_spans
        for t in tokens_within(text, span)
    )


def list_aggregate_calls(text: str, span: Span, subqueries: tuple[Query, ...] = ()) -> list[Span]:
    """The calls of aggregates in an expression that are not window functions, with FILTER where they have it."""
    tokens = tokens_within(text, span)
    calls: list[Span] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        called = index + 1 < len(tokens) and tokens[index + 1].text == "("
        known = token.kind == "word" and token.text.lower() in AGGREGATES | ORDERED_AGGREGATES
        after_dot = index > 0 and tokens[index - 1].text == "."
        if not (known and called) or after_dot or _is_inside(token.start, subqueries):
            index += 1
            continue
        closing = find_closing(tokens, index + 1)
        assert closing is not None
        end = closing
        while end + 2 < len(tokens) and tokens[end + 1].text.upper() in ("FILTER", "WITHIN", "IGNORE", "RESPECT"):
            opening = next((i for i in range(end + 2, min(end + 4, len(tokens))) if tokens[i].text == "("), None)
            bracket = find_closing(tokens, opening) if opening is not None else None
            end = bracket if bracket is not None else end + 2
        if end + 1 < len(tokens) and tokens[end + 1].text.upper() == "OVER":
            # Its arguments may themselves be aggregates.
            index += 1
            continue
        calls.append(Span(token.start, tokens[end].end))
        index = end + 1
    return calls


def _is_inside(offset: int, queries: tuple[Query, ...]) -> bool:
    return any(q.span.start <= offset < q.span.end for q in queries)
