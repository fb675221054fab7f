"""Comparing figures with what was asked for, and saying how they differ."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from sqb.checks.model import WHOLE, Figure, Judge, Measurements, build_template

Value = Callable[[Measurements], Decimal | None]
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


def is_satisfied(value: Decimal, comparison: str, limit: Decimal) -> bool:
    """Whether a comparison holds; NaN compares with nothing."""
    return comparison == "<>" if value.is_nan() else _HOLDS[comparison](value, limit)


def format_number(value: Decimal) -> str:
    """A number as people read it."""
    if not value.is_finite() or value.adjusted() > _LONGEST:
        return str(value)
    # A large number keeps its digits: rounding it would take more than Python's context has.
    rounded = round(value, 6) if -6 <= value.adjusted() < 20 else value
    text = f"{rounded:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def build_comparison(what: str, value: Value, comparison: str, limit: Decimal) -> Judge:
    """A judge that compares one value with a limit; a value that is NULL passes."""

    def judge(seen: Measurements) -> str | None:
        actual = value(seen)
        if actual is None or is_satisfied(actual, comparison, limit):
            return None
        return f"{what} is {format_number(actual)}, not {comparison} {format_number(limit)}"

    return judge


def compute_percentage(part: Decimal | None, of: Decimal | None) -> Decimal | None:
    """How much of something, in percent; None of nothing."""
    return None if part is None or not of else 100 * part / of


def unquote_name(quoted: str) -> str:
    """A quoted column as a figure's name has it."""
    return quoted[1:-1].replace("``", "`").lower()


def build_sum_figures(column: str) -> tuple[Figure, ...]:
    """The sum of a column in its own type, and as a double for when its type cannot hold the sum."""
    name = unquote_name(column)
    return Figure(f"sum({name})", f"try_sum({column})"), Figure(f"about({name})", f"sum(CAST({column} AS DOUBLE))")


def build_sum(column: str) -> Value:
    """The sum, exact where the column's type and that of its sum are."""
    exact, about = (figure.name for figure in build_sum_figures(column))

    def value(seen: Measurements) -> Decimal | None:
        total = seen.get_number(exact)
        return seen.get_number(about) if total is None else total

    return value


def build_count(column: str) -> Figure:
    """How many rows have a value."""
    return Figure(f"count({unquote_name(column)})", f"count({column})")


def build_distinct_count(*columns: str) -> Figure:
    """How many different values there are; combinations in which one is NULL are left out.

    A query of its own: among other aggregates, DISTINCT would make Spark group all of them by the values.
    """
    present = " AND ".join(f"{column} IS NOT NULL" for column in columns)
    groups = build_template("(SELECT 1 AS n FROM ", WHOLE, f" WHERE {present} GROUP BY {', '.join(columns)})")
    return Figure(f"distinct({', '.join(map(unquote_name, columns))})", "count(*)", groups)


def build_mean(column: str) -> Value:
    """The mean, from the sum."""
    total_of = build_sum(column)

    def value(seen: Measurements) -> Decimal | None:
        total, count = total_of(seen), seen.get_number(build_count(column).name)
        return None if total is None or not count else total / count

    return value
