"""Linear in a table: the changes of the table, put in its place, give the changes of the result.

A query is linear in a table when each row of it makes rows of the result by itself, whatever other rows of that table
there are: through filters, projections, inner joins, the left side of LEFT, SEMI and ANTI joins, and UNION ALL. The
other tables are then read as they are; what they say for a row does not depend on the rows that changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqb.sql.delta.read_skeleton import tokens_within
from sqb.sql.delta.skeleton import SLOT, Block, Body, Edit, Query, SetOperation, Source, Span, apply_edits
from sqb.sql.functions.builtins import AGGREGATES, ORDERED_AGGREGATES
from sqb.sql.text.lexer import find_closing

Slots = frozenset[int]
_NONE: Slots = frozenset()
# Where rows are sent before they are written is nothing that the rows depend on.
_HARMLESS = frozenset({"SORT", "CLUSTER", "DISTRIBUTE"})


@dataclass(frozen=True, slots=True)
class Reads:
    """The slots that a query reads, and those of them that it is linear in."""

    slots: Slots = _NONE
    linear: Slots = _NONE


def find_reads(text: str, body: Body, ctes: Mapping[str, Reads] | None = None) -> Reads:
    """The slots that a query reads, and those that it is linear in."""
    known = dict(ctes or {})
    match body:
        case Query():
            for cte in body.ctes:
                known[cte.name] = find_reads(text, cte.query, known)
            reads = find_reads(text, body.body, known)
            return Reads(reads.slots, _NONE) if body.limit is not None else reads
        case SetOperation():
            left, right = find_reads(text, body.left, known), find_reads(text, body.right, known)
            slots = left.slots | right.slots
            if body.operator != "UNION" or not body.keeps_duplicates:
                return Reads(slots)
            # A slot that both sides read must be linear in both.
            broken = (left.slots - left.linear) | (right.slots - right.linear)
            return Reads(slots, (left.linear | right.linear) - broken)
        case Block():
            reads = find_body_reads(text, body, known)
            plain = not body.is_distinct and not is_aggregating(text, body) and not has_window(text, body)
            plain = plain and set(body.others) <= _HARMLESS
            return reads if plain else Reads(reads.slots)


def find_body_reads(text: str, block: Block, ctes: Mapping[str, Reads]) -> Reads:
    """The slots of a block's sources, joined and filtered, without what the block makes of them."""
    linear: Slots = _NONE
    seen: Slots = _NONE
    twice: Slots = _NONE
    for source in block.sources:
        reads = _find_source_reads(text, source, ctes)
        match source.join:
            case "FROM" | "RIGHT":
                linear = reads.linear
            case "INNER" | "CROSS":
                linear |= reads.linear
            case "FULL":
                linear = _NONE
        twice |= seen & reads.slots
        seen |= reads.slots
    for query in block.subqueries:
        inner = find_reads(text, query, ctes).slots
        twice |= inner
        seen |= inner
    # A CTE whose name stands in a subquery is read there, and one that is read twice is joined with itself.
    return Reads(seen, linear - twice)


def _find_source_reads(text: str, source: Source, ctes: Mapping[str, Reads]) -> Reads:
    if isinstance(source.relation, Query):
        return find_reads(text, source.relation, ctes)
    if source.slot is not None:
        return Reads(frozenset({source.slot}), frozenset({source.slot}))
    return ctes.get(source.relation, Reads())


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


def render_term(text: str, query: Query, slot: int, fills: Mapping[int, str], edits: tuple[Edit, ...] = ()) -> str:
    """The query with its slots filled, and without the rows of UNION ALL branches that do not read `slot`.

    A branch stays in the text, emptied: it has its part in the types and the names of the columns.
    """
    emptied = tuple(_list_emptied(text, query, slot, {}))
    return apply_edits(text, (*fill_slots(text, query, fills), *emptied, *edits))


def fill_slots(text: str, query: Query, fills: Mapping[int, str]) -> list[Edit]:
    """The edits that put texts in the place of slots, wherever in the query they are read."""
    return [
        Edit(Span(t.start, t.end), fills[int(t.text.lower().removeprefix(SLOT))])
        for t in tokens_within(text, query.span)
        if t.kind == "word" and t.text.lower().startswith(SLOT)
    ]


def _list_emptied(text: str, body: Body, slot: int, ctes: Mapping[str, Slots]) -> list[Edit]:
    edits: list[Edit] = []
    known = dict(ctes)
    match body:
        case Query():
            for cte in body.ctes:
                edits += _list_emptied(text, cte.query, slot, known)
                known[cte.name] = find_slots(text, cte.query, known)
            edits += _list_emptied(text, body.body, slot, known)
        case SetOperation():
            for side in (body.left, body.right):
                if slot in find_slots(text, side, known):
                    edits += _list_emptied(text, side, slot, known)
                elif slot in find_slots(text, body, known):
                    edits += [
                        Edit(Span(side.span.start, side.span.start), "SELECT * FROM ("),
                        Edit(Span(side.span.end, side.span.end), "\n) WHERE false"),
                    ]
        case Block():
            for source in body.sources:
                if isinstance(source.relation, Query):
                    edits += _list_emptied(text, source.relation, slot, known)
    return edits


def find_slots(text: str, body: Body, ctes: Mapping[str, Slots]) -> Slots:
    """All slots that a query reads, by way of CTEs too."""
    reads = {name: Reads(slots, slots) for name, slots in ctes.items()}
    return find_reads(text, body, reads).slots
