"""Taking a block that groups apart: its groups, its calls of aggregates, and the columns that stand outside of them.

What adds up is told here; `state_design` says which figures are stored for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlglot import exp

from sqb.sql.delta.aggregates.grouping_sets import list_repeated_sets, list_set_members
from sqb.sql.delta.aggregates.model import AggregateCall, Aggregation, Expression
from sqb.sql.delta.errors import NotProven
from sqb.sql.delta.skeleton.calls import has_window, list_aggregate_calls
from sqb.sql.delta.skeleton.model import Block, Span
from sqb.sql.delta.skeleton.read import fold, tokens_within
from sqb.sql.text.lexer import Token, find_closing, split_arguments, strip_quotes

_SAME = {"mean": "avg", "every": "bool_and", "some": "bool_or", "any": "bool_or"}
_ADDITIVE = ("count", "sum", "avg", "count_if", "min", "max", "bool_and", "bool_or")


def read_aggregation(
    text: str,
    block: Block,
    select: exp.Select,
    source_columns: frozenset[str] | None,
    values: Mapping[int, Span] | None = None,
) -> Aggregation:
    """Take a grouping block apart; raises `NotProven` where it cannot be followed by adding up.

    `source_columns` are the names of all columns of the block's sources, None where they are not known; `values` has
    the subqueries that depend on no row of the block, by their number.
    """
    _refuse_clauses(text, block, values or {})
    calls: list[AggregateCall] = []
    columns: list[str] = []
    items = [strip_alias(text, span, node) for span, node in zip(block.items, select.expressions, strict=True)]
    by_sets = block.group_style == "sets"
    groups = read_groups(text, block, select, source_columns)
    given = _list_new_names(select)
    new_names = given - (source_columns or frozenset())
    reader = _ExpressionReader(text, calls, columns, new_names, values or {}, _number_groups(groups), by_sets)
    expressions = [reader.read(span, node) for span, node in zip(items, select.expressions, strict=True)]
    # In HAVING such a name counts also where a source has a column of that name, unless it is one of the groups.
    reader.new_names = given - {fold(group) for group in groups}
    having = reader.read(block.having, select.args["having"].this) if block.having is not None else None
    distinct = _list_distinct(calls, block)
    if by_sets and _list_names(distinct) & _list_names(groups):
        # As one more group, what a set leaves out would be part of it all the same.
        raise NotProven("count(DISTINCT …) of what grouping sets leave out", block.span.start)
    return Aggregation(
        block.select_list,
        block.having_clause,
        block.group_clause,
        groups,
        tuple(calls),
        tuple(columns),
        tuple(expressions),
        having,
        by_sets,
        has_window(text, block),
        distinct,
        list_repeated_sets(text, block, groups) if by_sets else (),
    )


def _number_groups(groups: Sequence[str]) -> dict[str, int]:
    """The groups that can be told by their text."""
    folded = [fold(group) for group in groups]
    return {text: number for number, text in enumerate(folded) if folded.count(text) == 1}


def _list_distinct(calls: Sequence[AggregateCall], block: Block) -> tuple[str, ...]:
    """The expressions whose distinct values are counted; several calls may count the same ones."""
    counted = {call.distinct_values for call in calls if call.function == "count_distinct"}
    if len(counted) > 1:
        raise NotProven("distinct values of several expressions", block.span.start)
    return next(iter(counted), ())


def _list_names(expressions: Sequence[str]) -> set[str]:
    """The names in some expressions, without those of the sources before columns."""
    names: set[str] = set()
    for expression in expressions:
        tokens = tokens_within(expression, Span(0, len(expression)))
        behind = [token.text for token in tokens[1:]] + [""]
        named = (t for t, after in zip(tokens, behind, strict=True) if t.kind in ("word", "quoted") and after != ".")
        names |= {strip_quotes(token).lower() for token in named}
    return names


def _refuse_clauses(text: str, block: Block, values: Mapping[int, Span]) -> None:
    if block.others:
        raise NotProven(f"{block.others[0]} over groups", block.span.start)
    inside = [q for q in block.subqueries if any(_covers(s, q.span) for s in (*block.items, block.having))]
    inside = [q for q in inside if q.span not in values.values()]
    if inside:
        raise NotProven("a subquery beside aggregates", inside[0].span.start)


def _list_new_names(select: exp.Select) -> frozenset[str]:
    """The names that the select list gives to something else than a column of that name.

    Spark lets other expressions of the block use them.
    """
    renamed = (n for n in select.expressions if n.alias and not _is_column(n.unalias(), n.alias))
    return frozenset(node.alias.lower() for node in renamed)


def _is_column(node: exp.Expr, name: str) -> bool:
    return isinstance(node, exp.Column) and node.name.lower() == name.lower()


def _covers(span: Span | None, other: Span) -> bool:
    return span is not None and span.covers(other)


def strip_alias(text: str, span: Span, node: exp.Expr) -> Span:
    """The expression of an item, without the name that it gets."""
    if not isinstance(node, exp.Alias):
        return span
    tokens = tokens_within(text, span)
    if strip_quotes(tokens[-1]).lower() != node.alias.lower() or len(tokens) < 2:
        raise NotProven("an alias that is not understood", span.start)
    last = tokens[-2]
    if last.kind == "word" and last.text.upper() == "AS":
        last = tokens[-3]
    return Span(span.start, last.end)


class _ExpressionReader:
    """Reads expressions into texts with holes; the same call or column gets the same number."""

    def __init__(
        self,
        text: str,
        calls: list[AggregateCall],
        columns: list[str],
        new_names: frozenset[str],
        values: Mapping[int, Span],
        groups: Mapping[str, int],
        by_sets: bool,
    ) -> None:
        self.text, self.calls, self.columns, self.new_names, self.values = text, calls, columns, new_names, values
        # The numbers of the groups, by their texts.
        self.groups, self.by_sets = groups, by_sets

    def read(self, span: Span, node: exp.Expr) -> Expression:
        if (group := self._find_group(span)) is not None:
            return Expression(("", ""), (("group", group),))
        items: list[tuple[Span, tuple[str, int]]] = [
            (value, ("query", number)) for number, value in self.values.items() if span.covers(value)
        ]
        for call_span in list_aggregate_calls(self.text, span):
            if any(value.covers(call_span) for value in self.values.values()):
                continue
            if any(call_span.covers(value) for value in self.values.values()):
                # Its figures would have to be those of another value when that changes.
                raise NotProven("a subquery in an aggregate", call_span.start)
            items.append((call_span, self._read_hole(call_span)))
        if any(not isinstance(star.parent, exp.Count) for star in iter_outside_queries(node, exp.Star)):
            raise NotProven("a star beside aggregates", span.start)
        for column in iter_outside_queries(node, exp.Column):
            if isinstance(column.this, exp.Star):
                continue
            place = _find_place(self.text, column)
            if place is None or not span.covers(place):
                raise NotProven("an expression that is not understood", span.start)
            if any(call_span.covers(place) for call_span, _ in items):
                continue
            if not column.table and column.name.lower() in self.new_names:
                raise NotProven("a name of the select list that is used again", place.start)
            items.append((place, self._read_column(place)))
        items.sort(key=lambda f: f[0].start)
        texts, position = [], span.start
        for place, _ in items:
            texts.append(self.text[position : place.start])
            position = place.end
        return Expression((*texts, self.text[position : span.end]), tuple(hole for _, hole in items))

    def _find_group(self, span: Span) -> int | None:
        return self.groups.get(fold(span.cut(self.text)))

    def _read_column(self, place: Span) -> tuple[str, int]:
        if (group := self._find_group(place)) is not None:
            return "group", group
        if self.by_sets:
            raise NotProven("a column beside grouping sets that is not one of the groups", place.start)
        return "column", _number(self.columns, place.cut(self.text))

    def _read_hole(self, span: Span) -> tuple[str, int]:
        """What a call is: of an aggregate, or a question which groups a set leaves out."""
        tokens = tokens_within(self.text, span)
        name = tokens[0].text.lower()
        if name not in ("grouping", "grouping_id"):
            return "call", _number(self.calls, _read_call(self.text, span))
        argument = fold(self.text[tokens[1].end : tokens[-1].start])
        if name == "grouping" and self.by_sets and argument in self.groups:
            return "left out", self.groups[argument]
        if name == "grouping_id" and self.by_sets and not argument:
            return "set", 0
        raise NotProven(f"this {name}() is not understood", span.start)


def iter_outside_queries(node: exp.Expr, kind: type[exp.Expr]) -> Iterator[Any]:
    """The nodes of a kind in an expression that are not part of a query inside of it."""
    stack = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, exp.Query):
            continue
        if isinstance(current, kind):
            yield current
        stack.extend(current.iter_expressions())


def _number(known: list, value: object) -> int:  # type: ignore[type-arg]
    if value not in known:
        known.append(value)
    return known.index(value)


def _find_place(text: str, column: exp.Column) -> Span | None:
    """Where a reference to a column is written."""
    places = [i.meta for i in column.find_all(exp.Identifier) if "start" in i.meta]
    if len(places) != len(list(column.find_all(exp.Identifier))):
        return None
    return Span(min(p["start"] for p in places), max(p["end"] for p in places) + 1)


def _read_call(text: str, span: Span) -> AggregateCall:
    tokens = tokens_within(text, span)
    name = tokens[0].text.lower()
    function = _SAME.get(name, name)
    closing = find_closing(tokens, 1)
    assert closing is not None
    inner = tokens[2:closing]
    if function not in _ADDITIVE:
        raise NotProven(f"{name}() does not add up", span.start)
    is_distinct = bool(inner) and inner[0].text.upper() == "DISTINCT"
    if is_distinct and function not in ("min", "max", "bool_and", "bool_or", "count"):
        raise NotProven(f"{name}(DISTINCT …) does not add up", span.start)
    behind = tokens[closing + 1 :]
    if behind and not _is_filter(behind):
        raise NotProven(f"what follows {name}() is not understood", behind[0].start)
    if is_distinct and function == "count":
        if behind:
            raise NotProven("count(DISTINCT …) with a FILTER does not add up", span.start)
        counted = split_arguments(text, tokens, 1, closing)
        counted[0] = counted[0][len("DISTINCT") :]
        return AggregateCall(span.cut(text), "count_distinct", "", distinct_values=tuple(c.strip() for c in counted))
    arguments = text[tokens[1].end : tokens[closing].start].strip()
    if function != "count" and any(t.text == "," for t in _list_outer(inner)):
        raise NotProven(f"{name}() of several values is not understood", span.start)
    return AggregateCall(span.cut(text), function, arguments, text[behind[0].start : span.end] if behind else "")


def _list_outer(tokens: Sequence[Token]) -> list[Token]:
    outer, depth = [], 0
    for token in tokens:
        depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
        if depth == 0:
            outer.append(token)
    return outer


def _is_filter(tokens: list[Token]) -> bool:
    if tokens[0].text.upper() != "FILTER" or len(tokens) < 3 or tokens[1].text != "(":
        return False
    return find_closing(tokens, 1) == len(tokens) - 1


def read_groups(text: str, block: Block, select: exp.Select, source_columns: frozenset[str] | None) -> tuple[str, ...]:
    """The expressions that make the groups of a block, as SQL over its sources."""
    items = [strip_alias(text, span, node) for span, node in zip(block.items, select.expressions, strict=True)]
    aliases = {node.alias.lower(): i for i, node in enumerate(select.expressions) if node.alias}
    groups = tuple(_list_groups(text, block, items, aliases, source_columns))
    if any(group.strip().isdecimal() for group in groups):
        # As a group of its own text it would be the place of a column.
        raise NotProven("GROUP BY a number", block.span.start)
    return groups


def _list_groups(
    text: str, block: Block, items: Sequence[Span], aliases: Mapping[str, int], source_columns: frozenset[str] | None
) -> list[str]:
    if block.group_style == "all":
        return [span.cut(text) for span in items if not list_aggregate_calls(text, span)]
    groups = []
    spans = list_set_members(text, block) if block.group_style == "sets" else block.group
    for span in spans or ():
        tokens = tokens_within(text, span)
        name = strip_quotes(tokens[0]).lower()
        if len(tokens) == 1 and tokens[0].kind == "number":
            position = int(tokens[0].text)
            if not 1 <= position <= len(items):
                raise NotProven("GROUP BY a place that is not there", span.start)
            groups.append(items[position - 1].cut(text))
        elif len(tokens) == 1 and name in aliases and (source_columns is None or name not in source_columns):
            item = items[aliases[name]].cut(text)
            # Where columns are not known, the name of a column that is also an alias of something else is ambiguous.
            if source_columns is None and item.rpartition(".")[2].strip("`").lower() != name:
                raise NotProven("GROUP BY a name that could be a column or an alias", span.start)
            groups.append(item)
        else:
            groups.append(span.cut(text))
    return groups
