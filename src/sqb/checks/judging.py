"""Comparing figures with what was asked for, and saying how they differ."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from sqb.checks.values import WHOLE, Figure, Judge, Seen, sql

Value = Callable[[Seen], Decimal | None]
ROWS = Figure("rows", "count(*)")
_LONGEST = 40
_HOLDS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def holds(value: Decimal, comparison: str, limit: Decimal) -> bool:
    """Whether a comparison holds; NaN compares with nothing."""
    return comparison == "<>" if value.is_nan() else _HOLDS[comparison](value, limit)


def shown(value: Decimal) -> str:
    """A number as people read it."""
    if not value.is_finite() or value.adjusted() > _LONGEST:
        return str(value)
    # A large number keeps its digits: rounding it would take more than Python's context has.
    rounded = round(value, 6) if -6 <= value.adjusted() < 20 else value
    text = f"{rounded:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def compared(what: str, value: Value, comparison: str, limit: Decimal) -> Judge:
    """A judge that compares one value with a limit; a value that is NULL passes."""

    def judge(seen: Seen) -> str | None:
        found = value(seen)
        if found is None or holds(found, comparison, limit):
            return None
        return f"{what} is {shown(found)}, not {comparison} {shown(limit)}"

    return judge


def percentage(part: Decimal | None, of: Decimal | None) -> Decimal | None:
    """How much of something, in percent; None of nothing."""
    return None if part is None or not of else 100 * part / of


def name_of(quoted: str) -> str:
    """A quoted column as a figure's name has it."""
    return quoted[1:-1].replace("``", "`").lower()


def sums(column: str) -> tuple[Figure, ...]:
    """The sum of a column in its own type, and as a double for when its type cannot hold the sum."""
    name = name_of(column)
    return Figure(f"sum({name})", f"try_sum({column})"), Figure(f"about({name})", f"sum(CAST({column} AS DOUBLE))")


def sum_of(column: str) -> Value:
    """The sum, exact where the column's type and that of its sum are."""
    exact, about = (figure.name for figure in sums(column))

    def value(seen: Seen) -> Decimal | None:
        found = seen.number(exact)
        return seen.number(about) if found is None else found

    return value


def counted(column: str) -> Figure:
    """How many rows have a value."""
    return Figure(f"count({name_of(column)})", f"count({column})")


def distinct(*columns: str) -> Figure:
    """How many different values there are; combinations in which one is NULL are left out.

    A query of its own: among other aggregates, DISTINCT would make Spark group all of them by the values.
    """
    present = " AND ".join(f"{column} IS NOT NULL" for column in columns)
    groups = sql("(SELECT 1 AS n FROM ", WHOLE, f" WHERE {present} GROUP BY {', '.join(columns)})")
    return Figure(f"distinct({', '.join(map(name_of, columns))})", "count(*)", groups)


def mean_of(column: str) -> Value:
    """The mean, from the sum."""
    total_of = sum_of(column)

    def value(seen: Seen) -> Decimal | None:
        total, count = total_of(seen), seen.number(counted(column).name)
        return None if total is None or not count else total / count

    return value
