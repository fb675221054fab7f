"""Aggregates that can be added up: from the groups of before and those of the changes come the groups of now.

A block that groups is taken apart: its groups, its calls of aggregates, and the columns that stand outside of them. For
each group a row of state is kept: the values of the groups, one row's columns that the select list shows (any row's, as
Spark lets the list show only what is the same for all rows of a group), how many rows it has, and for each call the
figures that add up. The final row is the author's own expressions over these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from sqb.sql.delta.blocks import NotProven
from sqb.sql.delta.linear import has_window, list_aggregate_calls
from sqb.sql.delta.read_skeleton import tokens_within
from sqb.sql.delta.skeleton import Block, Edit, Query, Span, apply_edits
from sqb.sql.text.lexer import Token, find_closing, strip_quotes

ROWS = "__sqb_rows"
SAMPLE = "__sqb_sample"
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_SAME = {"mean": "avg", "every": "bool_and", "some": "bool_or", "any": "bool_or"}
_ADDITIVE = ("count", "sum", "avg", "count_if", "min", "max", "bool_and", "bool_or")
# Sums of whole numbers up to here are the same in doubles, in whatever order they are added.
_EXACT_IN_DOUBLES = 2**53
# Decimals of up to so many digits have an average that their sum, divided by their number, gives to the digit.
_EXACT_DIVISION = 24


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One call: its text, the function by its usual name, the text of its arguments and of its FILTER."""

    text: str
    function: str
    arguments: str
    filter: str = ""

    def with_function(self, function: str, arguments: str = "") -> str:
        """The same rows in another function."""
        return f"{function}({arguments or self.arguments}){' ' + self.filter if self.filter else ''}"


@dataclass(frozen=True, slots=True)
class Aggregation:
    """A block that groups, taken apart."""

    block: Block
    # The expressions that make the groups, as SQL over the block's sources; none for one group of all rows.
    groups: tuple[str, ...]
    calls: tuple[AggregateCall, ...]
    # References to columns outside of the calls, as they are written.
    columns: tuple[str, ...]
    # The select list and HAVING, in which calls are `{c0}`, `{c1}` … and columns `{s0}`, `{s1}` ….
    items: tuple[Expression, ...]
    having: Expression | None = None

    @property
    def is_global(self) -> bool:
        """One group of all rows, which is there without rows too; GROUP BY ALL of aggregates alone is that as well."""
        return not self.groups

    def replace_select(self, items: Sequence[str]) -> tuple[Edit, ...]:
        """The edits that make the block compute other items for its groups, all of them."""
        block = self.block
        edits = [Edit(block.select_list, ", ".join(items))]
        if block.having_clause is not None:
            edits.append(Edit(block.having_clause, ""))
        if block.group_clause is not None:
            groups = ", ".join(self.groups)
            edits.append(Edit(block.group_clause, f"GROUP BY {groups}" if groups else ""))
        return tuple(edits)


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression of the author's with holes: texts between, and which call or column is in each hole."""

    texts: tuple[str, ...]
    holes: tuple[tuple[str, int], ...]

    def fill(self, calls: Sequence[str], columns: Sequence[str]) -> str:
        """The expression over other values."""
        pieces = [self.texts[0]]
        for (kind, index), text in zip(self.holes, self.texts[1:], strict=True):
            pieces += [calls[index] if kind == "call" else columns[index], text]
        return "".join(pieces)


def read_aggregation(text: str, block: Block, select: exp.Select, source_columns: frozenset[str] | None) -> Aggregation:
    """Take a grouping block apart; raises `NotProven` where it cannot be followed by adding up.

    `source_columns` are the names of all columns of the block's sources, None where they are not known.
    """
    _refuse_clauses(text, block)
    calls: list[AggregateCall] = []
    columns: list[str] = []
    items = [_strip_alias(text, span, node) for span, node in zip(block.items, select.expressions, strict=True)]
    aliases = {node.alias.lower(): i for i, node in enumerate(select.expressions) if node.alias}
    reader = _ExpressionReader(text, calls, columns, _list_new_names(select, source_columns))
    expressions = [reader.read(span, node) for span, node in zip(items, select.expressions, strict=True)]
    having = reader.read(block.having, select.args["having"].this) if block.having is not None else None
    groups = tuple(_list_groups(text, block, items, aliases, source_columns))
    if any(group.strip().isdecimal() for group in groups):
        # As a group of its own text it would be the place of a column.
        raise NotProven("GROUP BY a number", block.span.start)
    return Aggregation(block, groups, tuple(calls), tuple(columns), tuple(expressions), having)


def _refuse_clauses(text: str, block: Block) -> None:
    offset = block.span.start
    if block.is_distinct:
        raise NotProven("DISTINCT over groups", offset)
    if block.group_style == "sets":
        raise NotProven("grouping sets", block.group_clause.start if block.group_clause else offset)
    if has_window(text, block):
        raise NotProven("a window function over groups", offset)
    if block.others:
        raise NotProven(f"{block.others[0]} over groups", offset)
    inside = [q for q in block.subqueries if any(_covers(s, q.span) for s in (*block.items, block.having))]
    if inside:
        raise NotProven("a subquery beside aggregates", inside[0].span.start)


def _list_new_names(select: exp.Select, source_columns: frozenset[str] | None) -> frozenset[str]:
    """The names that only the select list gives: Spark lets other expressions of the block use them."""
    aliases = {node.alias.lower() for node in select.expressions if node.alias}
    if source_columns is not None:
        return frozenset(aliases - source_columns)
    columns = {node.this.name.lower() for node in select.expressions if isinstance(node.unalias(), exp.Column)}
    return frozenset(aliases - columns)


def _covers(span: Span | None, other: Span) -> bool:
    return span is not None and span.covers(other)


def _strip_alias(text: str, span: Span, node: exp.Expr) -> Span:
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

    def __init__(self, text: str, calls: list[AggregateCall], columns: list[str], new_names: frozenset[str]) -> None:
        self.text, self.calls, self.columns, self.new_names = text, calls, columns, new_names

    def read(self, span: Span, node: exp.Expr) -> Expression:
        found: list[tuple[Span, tuple[str, int]]] = []
        for call_span in list_aggregate_calls(self.text, span):
            call = _read_call(self.text, call_span)
            found.append((call_span, ("call", _number(self.calls, call))))
        if any(not isinstance(star.parent, exp.Count) for star in node.find_all(exp.Star)):
            raise NotProven("a star beside aggregates", span.start)
        for column in node.find_all(exp.Column):
            if isinstance(column.this, exp.Star):
                continue
            place = _find_place(self.text, column)
            if place is None or not span.covers(place):
                raise NotProven("an expression that is not understood", span.start)
            if any(call_span.covers(place) for call_span, (kind, _) in found if kind == "call"):
                continue
            if not column.table and column.name.lower() in self.new_names:
                raise NotProven("a name of the select list that is used again", place.start)
            found.append((place, ("column", _number(self.columns, place.cut(self.text)))))
        found.sort(key=lambda f: f[0].start)
        texts, position = [], span.start
        for place, _ in found:
            texts.append(self.text[position : place.start])
            position = place.end
        return Expression((*texts, self.text[position : span.end]), tuple(hole for _, hole in found))


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
    if inner and inner[0].text.upper() == "DISTINCT" and function not in ("min", "max", "bool_and", "bool_or"):
        raise NotProven(f"{name}(DISTINCT …) does not add up", span.start)
    behind = tokens[closing + 1 :]
    if behind and not _is_filter(behind):
        raise NotProven(f"what stands behind {name}() is not understood", behind[0].start)
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


def _list_groups(
    text: str, block: Block, items: Sequence[Span], aliases: Mapping[str, int], source_columns: frozenset[str] | None
) -> list[str]:
    if block.group_style == "all":
        return [span.cut(text) for span in items if not list_aggregate_calls(text, span)]
    groups = []
    for span in block.group or ():
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


# --- state ------------------------------------------------------------------------------------------------------------


def list_type_questions(aggregation: Aggregation) -> list[str]:
    """What must be known of Spark: for each call the type of its result, and of the sum of its arguments."""
    sums = ("sum", "avg")
    return [
        f"{call.text} AS t{i}, {call.with_function('sum') if call.function in sums else '0'} AS u{i}"
        for i, call in enumerate(aggregation.calls)
    ]


@dataclass(frozen=True, slots=True)
class Figure:
    """A column of the state: how it is computed from rows, and how two of them become one."""

    name: str
    expression: str
    # How it is stored; "" for the type that the expression has.
    type: str = "BIGINT"
    merge: Literal["sum", "min", "max"] = "sum"


@dataclass(frozen=True, slots=True)
class CallState:
    """What is kept for one call, and the call's value made from that."""

    figures: tuple[Figure, ...]
    result: str
    # What must hold for the value to be that of Spark's own aggregate; "" where it always is.
    exact_if: str = ""


def design_call_state(index: int, call: AggregateCall, result_type: str, sum_type: str) -> CallState:
    """The figures that are kept for a call, by the types that Spark gives it."""
    name = f"c{index}"
    count = Figure(f"{name}_n", call.with_function("count"))
    match call.function:
        case "count" | "count_if":
            return CallState((Figure(name, call.text),), name)
        case "bool_and" | "bool_or":
            yes = Figure(f"{name}_t", call.with_function("count_if"))
            no = Figure(f"{name}_f", call.with_function("count_if", f"NOT ({call.arguments})"))
            holds = f"{name}_f = 0" if call.function == "bool_and" else f"{name}_t > 0"
            return CallState((yes, no), f"CASE WHEN {name}_t + {name}_f > 0 THEN {holds} END")
        case "min" | "max":
            return CallState((Figure(name, call.text, "", call.function),), name)
        case "sum":
            total = _build_exact_sum(name, call, result_type)
            return CallState((total, count), f"CASE WHEN {count.name} > 0 THEN CAST({name} AS {result_type}) END")
    return _design_average(name, call, count, result_type, sum_type)


def _design_average(name: str, call: AggregateCall, count: Figure, result_type: str, sum_type: str) -> CallState:
    total = _build_exact_sum(name, call, sum_type)
    if sum_type == "bigint":
        # Spark adds doubles; up to 2^53 that is exact, whatever the order.
        size = Figure(
            f"{name}_a", call.with_function("sum", f"abs(CAST(({call.arguments}) AS DECIMAL(38,0)))"), "DECIMAL(38,0)"
        )
        value = f"CAST({name} AS DOUBLE) / CAST({count.name} AS DOUBLE)"
        return CallState(
            (total, count, size),
            f"CASE WHEN {count.name} > 0 THEN {value} END",
            f"coalesce({name}_a, 0) <= {_EXACT_IN_DOUBLES}",
        )
    decimal = _DECIMAL.fullmatch(sum_type)
    # Spark sums in ten digits more than the values have, at most 38.
    precision = int(decimal[1]) - 10 if decimal is not None else 0
    if precision > _EXACT_DIVISION:
        raise NotProven("an average of decimals with more digits than a division keeps")
    # The division is rounded once, and to the type of the average again: up to so many values that changes nothing.
    limit = f"{count.name} < {10 ** min(17, _EXACT_DIVISION - precision)}L" if precision < _EXACT_DIVISION else ""
    value = f"CAST({name} AS {sum_type}) / {count.name}"
    return CallState((total, count), f"CASE WHEN {count.name} > 0 THEN CAST({value} AS {result_type}) END", limit)


def _build_exact_sum(name: str, call: AggregateCall, sum_type: str) -> Figure:
    """The sum of a call's arguments, in a type in which adding is exact."""
    if sum_type == "bigint":
        return Figure(name, call.with_function("sum", f"CAST(({call.arguments}) AS DECIMAL(38,0))"), "DECIMAL(38,0)")
    if decimal := _DECIMAL.fullmatch(sum_type):
        return Figure(name, call.with_function("sum"), f"DECIMAL(38,{decimal[2]})")
    raise NotProven(f"a sum of type {sum_type} depends on the order of rows")


@dataclass(frozen=True, slots=True)
class StateDesign:
    """The table of an aggregation's state: what is computed from rows, and what the rows of the result are made of."""

    aggregation: Aggregation
    calls: tuple[CallState, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(f"g{i}" for i in range(len(self.aggregation.groups)))

    @property
    def figures(self) -> tuple[Figure, ...]:
        """Every column that adds up, the number of rows first."""
        return (Figure(ROWS, "count(*)"), *(f for call in self.calls for f in call.figures))

    @property
    def samples(self) -> tuple[str, ...]:
        return tuple(f"s{i}" for i in range(len(self.aggregation.columns)))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the state, in their order."""
        sample = (SAMPLE,) if self.samples else ()
        return (*self.keys, *sample, *(f.name for f in self.figures))

    def render_partials(self) -> tuple[Edit, ...]:
        """The edits that make the block compute state instead of its own rows."""
        aggregation = self.aggregation
        parts = [f"{group} AS {key}" for group, key in zip(aggregation.groups, self.keys, strict=True)]
        if self.samples:
            fields = ", ".join(
                f"'{name}', {column}" for name, column in zip(self.samples, aggregation.columns, strict=True)
            )
            parts.append(f"any_value(named_struct({fields})) AS {SAMPLE}")
        parts += [
            f"CAST({f.expression} AS {f.type}) AS {f.name}" if f.type else f"{f.expression} AS {f.name}"
            for f in self.figures
        ]
        return aggregation.replace_select(parts)

    def render_result(self, state: str) -> str:
        """The rows of the result, from a relation that holds state."""
        aggregation = self.aggregation
        calls = [f"({call.result})" for call in self.calls]
        columns = [f"{SAMPLE}.{name}" for name in self.samples]
        items = ", ".join(f"{e.fill(calls, columns)} AS r{i}" for i, e in enumerate(aggregation.items))
        where = f" WHERE {aggregation.having.fill(calls, columns)}" if aggregation.having is not None else ""
        return f"SELECT {items} FROM {state}{where}"

    def render_inexact(self) -> str:
        """The condition under which a group's figures do not give Spark's own value; "" if there is none."""
        return " OR ".join(f"NOT ({call.exact_if})" for call in self.calls if call.exact_if)


def render_types_query(text: str, query: Query, aggregation: Aggregation, fills: Sequence[Edit]) -> str:
    """A query whose columns have the types that `design_call_state` asks for, and nothing else of interest."""
    edits = [*fills, *aggregation.replace_select(["1 AS x", *list_type_questions(aggregation)])]
    if query.order is not None:
        edits.append(Edit(query.order, ""))
    return apply_edits(text, edits)
