"""Warnings about change: row_count_delta, sum_delta, mean_delta, approaching_limit. Without a run before, they pass."""

from __future__ import annotations

from decimal import Decimal

from sqb.checks.arguments import Arguments, BadArgument
from sqb.checks.library.statistics import is_within
from sqb.checks.model import Figure, Figures, Judge, Measurements, Test
from sqb.checks.thresholds import (
    ROWS,
    Value,
    build_count,
    build_mean,
    build_sum,
    build_sum_figures,
    format_number,
    unquote_name,
)
from sqb.types.model import INTEGER_BITS
from sqb.types.parse import parse_type


def row_count_delta(a: Arguments) -> Test:
    """The number of rows changed by at most so many percent since the run before."""
    value: Value = lambda seen: seen.get_number("rows")  # noqa: E731
    return Figures((ROWS,), _judge_change("the number of rows", value, a.take_percent()), keep=("rows",))


def sum_delta(a: Arguments) -> Test:
    """The sum changed by at most so many percent since the run before."""
    column = a.take_column("number")
    judge = _judge_change(f"the sum of {unquote_name(column)}", build_sum(column), a.take_percent())
    return Figures(build_sum_figures(column), judge, keep=tuple(figure.name for figure in build_sum_figures(column)))


def mean_delta(a: Arguments) -> Test:
    """The mean changed by at most so many percent since the run before."""
    column = a.take_column("number")
    figures = (*build_sum_figures(column), build_count(column))
    judge = _judge_change(f"the mean of {unquote_name(column)}", build_mean(column), a.take_percent())
    return Figures(figures, judge, keep=tuple(figure.name for figure in figures))


def _judge_change(what: str, value: Value, percent: Decimal) -> Judge:
    def judge(seen: Measurements) -> str | None:
        before, now = value(Measurements(seen.previous, {}, seen.now)), value(seen)
        if before is None or now is None or not before.is_finite():
            return None
        if now.is_finite() and is_within(now, before, percent):
            return None
        return (
            f"{what} went from {format_number(before)} to {format_number(now)}, by more than {format_number(percent)}%"
        )

    return judge


def approaching_limit(a: Arguments) -> Test:
    """The greatest value is below so many percent (90 by default) of a limit: a number, or the greatest of a type."""
    column, text = a.take_column("number"), a.left[0] if a.left else ""
    kind = parse_type(text)
    if kind is not None and kind in INTEGER_BITS:
        a.take("the limit")
        limit = Decimal(2 ** INTEGER_BITS[kind] - 1)
    else:
        limit = a.take_number("the limit")
    if limit <= 0:
        raise BadArgument(f"the limit {format_number(limit)} is not above 0")
    percent = a.take_percent() if a.left else Decimal(90)
    name = f"max({unquote_name(column)})"

    def judge(seen: Measurements) -> str | None:
        greatest = seen.get_number(name)
        if greatest is None or greatest * 100 < percent * limit:
            return None
        share = f"{format_number(percent)}% of {format_number(limit)}"
        return f"the max of {unquote_name(column)} is {format_number(greatest)}, which is {share} or more"

    return Figures((Figure(name, f"CAST(max({column}) AS STRING)"),), judge)
