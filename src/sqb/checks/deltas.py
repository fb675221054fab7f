"""Warnings about change: row_count_delta, sum_delta, mean_delta, approaching_limit. Without a run before, they pass."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from sqb.checks.arguments import Arguments, Wrong
from sqb.checks.judging import ROWS, Value, counted, mean_of, name_of, shown, sum_of, sums
from sqb.checks.statistics import tolerated
from sqb.checks.types import type_words
from sqb.checks.values import Figure, Figures, Judge, Seen, Test

_LIMITS: Mapping[str, Decimal] = {
    "tinyint": Decimal(2**7 - 1),
    "smallint": Decimal(2**15 - 1),
    "int": Decimal(2**31 - 1),
    "bigint": Decimal(2**63 - 1),
}


def row_count_delta(a: Arguments) -> Test:
    """The number of rows changed by at most so many percent since the run before."""
    value: Value = lambda seen: seen.number("rows")  # noqa: E731
    return Figures((ROWS,), _changed("the number of rows", value, a.percent()), keep=("rows",))


def sum_delta(a: Arguments) -> Test:
    """The sum changed by at most so many percent since the run before."""
    column = a.column("number")
    judge = _changed(f"the sum of {name_of(column)}", sum_of(column), a.percent())
    return Figures(sums(column), judge, keep=tuple(figure.name for figure in sums(column)))


def mean_delta(a: Arguments) -> Test:
    """The mean changed by at most so many percent since the run before."""
    column = a.column("number")
    figures = (*sums(column), counted(column))
    judge = _changed(f"the mean of {name_of(column)}", mean_of(column), a.percent())
    return Figures(figures, judge, keep=tuple(figure.name for figure in figures))


def _changed(what: str, value: Value, percent: Decimal) -> Judge:
    def judge(seen: Seen) -> str | None:
        before, now = value(Seen(seen.previous, {}, seen.now)), value(seen)
        if before is None or now is None or not before.is_finite():
            return None
        if now.is_finite() and tolerated(now, before, percent):
            return None
        return f"{what} went from {shown(before)} to {shown(now)}, by more than {shown(percent)}%"

    return judge


def approaching_limit(a: Arguments) -> Test:
    """The greatest value is below so many percent (90 unless said) of a limit: a number, or the greatest of a type."""
    column, text = a.column("number"), a.left[0] if a.left else ""
    limit = _LIMITS.get(type_words(text)) if text else None
    if limit is None:
        limit = a.number("the limit")
    else:
        a.take("the limit")
    if limit <= 0:
        raise Wrong(f"the limit {shown(limit)} is not above 0")
    percent = a.percent() if a.left else Decimal(90)
    name = f"max({name_of(column)})"

    def judge(seen: Seen) -> str | None:
        found = seen.number(name)
        if found is None or found * 100 < percent * limit:
            return None
        return f"the max of {name_of(column)} is {shown(found)}, which is {shown(percent)}% of {shown(limit)} or more"

    return Figures((Figure(name, f"CAST(max({column}) AS STRING)"),), judge)
