"""Which figures are kept for the groups of a block, so that changes can be added to them.

For each group a row of state is kept: its values, one row's columns that the select list shows (any row's,
as Spark lets the list show only what is the same for all rows of a group), how many rows it has, and for each call the
figures that add up. Where distinct values are counted, there is a row for each of them. The final row is the author's
own expressions over these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sqb.sql.delta.aggregates.model import AggregateCall, Aggregation
from sqb.sql.delta.errors import NotProven

ROWS = "__sqb_rows"
SAMPLE = "__sqb_sample"
# How many distinct values a group has.
DISTINCT = "__sqb_distinct"
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
# Whole numbers of so few bits that only billions of them in a group have a sum that a BIGINT does not hold.
_SHORT = ("tinyint", "smallint", "int")
# Sums of whole numbers up to here are the same in doubles, in whatever order they are added.
_EXACT_IN_DOUBLES = 2**53
# Decimals of up to so many digits have an average that their sum, divided by their number, gives to the digit.
_EXACT_DIVISION = 24


def list_type_questions(aggregation: Aggregation) -> list[str]:
    """What must be known of Spark: for each call the type of its result, and those of a sum and its arguments."""
    questions = []
    for i, call in enumerate(aggregation.calls):
        if call.function != "count_distinct":
            questions.append(f"{call.text} AS t{i}")
        if call.function in ("sum", "avg"):
            questions += [f"{call.with_function('sum')} AS u{i}", f"{call.with_function('max')} AS v{i}"]
    return questions


def design_state(aggregation: Aggregation, types: Mapping[str, str]) -> StateDesign:
    """The state of an aggregation, by the types that `list_type_questions` asks for; raises `NotProven`."""
    calls = (
        design_call_state(i, call, types.get(f"t{i}", "bigint"), types.get(f"u{i}", ""), types.get(f"v{i}", ""))
        for i, call in enumerate(aggregation.calls)
    )
    design = StateDesign(aggregation, tuple(calls))
    if aggregation.distinct and design.render_inexact():
        raise NotProven("an average beside distinct values")
    return design


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


def design_call_state(
    index: int, call: AggregateCall, result_type: str, sum_type: str = "", value_type: str = ""
) -> CallState:
    """The figures that are kept for a call, by the types that Spark gives it; those of a sum, by its arguments' too."""
    name = f"c{index}"
    if call.function == "count_distinct":
        return CallState((), DISTINCT)
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
            total = _build_exact_sum(name, call, result_type, value_type)
            return CallState((total, count), f"CASE WHEN {count.name} > 0 THEN CAST({name} AS {result_type}) END")
    return _design_average(call, count, _build_exact_sum(name, call, sum_type, value_type), result_type, sum_type)


def _design_average(call: AggregateCall, count: Figure, total: Figure, result_type: str, sum_type: str) -> CallState:
    name = total.name
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


def _build_exact_sum(name: str, call: AggregateCall, sum_type: str, value_type: str) -> Figure:
    """The sum of a call's arguments, in a type in which adding is exact."""
    if sum_type == "bigint" and value_type in _SHORT:
        # Spark adds them several times as fast as decimals.
        return Figure(name, call.with_function("sum"), "DECIMAL(38,0)")
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
    def groups(self) -> tuple[str, ...]:
        """The columns that tell groups apart: their values and, with grouping sets, which of them a set leaves out."""
        numbers = range(len(self.aggregation.groups))
        return (*(f"g{i}" for i in numbers), *(f"i{i}" for i in numbers if self.aggregation.by_sets))

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that tell the rows of the state apart: the groups, and the values that are counted in them."""
        return (*self.groups, *(f"d{i}" for i in range(len(self.aggregation.distinct))))

    @property
    def figures(self) -> tuple[Figure, ...]:
        """Every column that adds up, the number of rows first."""
        return (Figure(ROWS, "count(*)"), *(f for call in self.calls for f in call.figures))

    @property
    def has_extremes(self) -> bool:
        """Whether it keeps smallest or largest values, of which not every change tells the next one."""
        return any(figure.merge != "sum" for figure in self.figures)

    @property
    def samples(self) -> tuple[str, ...]:
        return tuple(f"s{i}" for i in range(len(self.aggregation.columns)))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the state, in their order."""
        sample = (SAMPLE,) if self.samples else ()
        return (*self.keys, *sample, *(f.name for f in self.figures))

    def render_list(self) -> str:
        """The select list that computes state."""
        aggregation = self.aggregation
        parts = [f"{group} AS g{i}" for i, group in enumerate(aggregation.groups)]
        if aggregation.by_sets:
            parts += [f"CAST(grouping({group}) AS INT) AS i{i}" for i, group in enumerate(aggregation.groups)]
        parts += [f"{value} AS d{i}" for i, value in enumerate(aggregation.distinct)]
        if self.samples:
            fields = ", ".join(
                f"'{name}', {column}" for name, column in zip(self.samples, aggregation.columns, strict=True)
            )
            parts.append(f"any_value(named_struct({fields})) AS {SAMPLE}")
        parts += [
            f"CAST({f.expression} AS {f.type}) AS {f.name}" if f.type else f"{f.expression} AS {f.name}"
            for f in self.figures
        ]
        return ", ".join(parts)

    def render_result(self, state: str, queries: Mapping[int, str] | None = None) -> str:
        """The rows of the result, from a relation that holds state; `queries` has what subqueries are replaced by."""
        aggregation = self.aggregation
        values = {("call", i): f"({call.result})" for i, call in enumerate(self.calls)}
        values |= {("column", i): f"{SAMPLE}.{name}" for i, name in enumerate(self.samples)}
        values |= {("group", i): f"g{i}" for i in range(len(aggregation.groups))}
        values |= {("left out", i): f"CAST(i{i} AS TINYINT)" for i in range(len(aggregation.groups))}
        values |= {("set", 0): self._render_set_number()}
        values |= {("query", number): text for number, text in (queries or {}).items()}
        items = ", ".join(f"{e.fill(values)} AS r{i}" for i, e in enumerate(aggregation.items))
        # Without an alias, Spark would take WHERE (g0) for one with the name of a column.
        where = f" AS __sqb_t WHERE {aggregation.having.fill(values)}" if aggregation.having is not None else ""
        return f"SELECT {items} FROM {self._repeat_sets(self._render_groups(state))}{where}"

    def _repeat_sets(self, groups: str) -> str:
        """The groups of sets that are listed several times as often as that."""
        numbers = range(len(self.aggregation.groups))
        parts = [f"SELECT * FROM {groups}"]
        for each in self.aggregation.sets:
            same = " AND ".join(f"i{n} = {int(n not in each.members)}" for n in numbers)
            parts += [f"SELECT * FROM {groups} WHERE {same or 'true'}"] * (each.times - 1)
        return f"({' UNION ALL '.join(parts)})" if len(parts) > 1 else groups

    def _render_set_number(self) -> str:
        last = len(self.aggregation.groups) - 1
        parts = (f"i{i} * {2 ** (last - i)}L" for i in range(len(self.aggregation.groups)))
        return f"({' + '.join(parts) or '0L'})"

    def _render_groups(self, state: str) -> str:
        """The rows of state, one for each group: where distinct values are counted, those of a group put together."""
        if not self.aggregation.distinct:
            return state
        parts = [*self.groups, *([f"any_value({SAMPLE}) AS {SAMPLE}"] if self.samples else [])]
        for figure in self.figures:
            merged = f"{figure.merge}({figure.name})"
            if figure.type == "BIGINT":
                # A count over nothing is 0.
                merged = f"coalesce({merged}, 0L)"
            parts.append(f"{f'CAST({merged} AS {figure.type})' if figure.type else merged} AS {figure.name}")
        counted = " AND ".join(f"d{i} IS NOT NULL" for i in range(len(self.aggregation.distinct)))
        parts.append(f"count_if({counted}) AS {DISTINCT}")
        by = f" GROUP BY {', '.join(self.groups)}" if self.groups else ""
        return f"(SELECT {', '.join(parts)} FROM {state}{by})"

    def render_inexact(self) -> str:
        """The condition under which a group's figures do not give Spark's own value; "" if there is none."""
        return " OR ".join(f"NOT ({call.exact_if})" for call in self.calls if call.exact_if)
