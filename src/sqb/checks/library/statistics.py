"""Checks of figures over a column: mean, min, max, sum, median, stddev, zscore, percentile, entropy.

A figure that is NULL, as those of an empty relation or of a column of NULLs are, passes.
"""

from __future__ import annotations

from decimal import Decimal

from sqb.checks.arguments import Arguments, BadArgument
from sqb.checks.model import WHOLE, Figure, Figures, Measurements, Test, build_template
from sqb.checks.thresholds import (
    build_comparison,
    build_count,
    build_mean,
    build_sum,
    build_sum_figures,
    format_number,
    is_satisfied,
    unquote_name,
)
from sqb.names import quote

_EXACT_ROWS = 100000


def mean(a: Arguments) -> Test:
    """The mean compares as asked."""
    column = a.take_column("number")
    judge = build_comparison(
        f"the mean of {unquote_name(column)}", build_mean(column), a.take_operator(), a.take_number()
    )
    return Figures((*build_sum_figures(column), build_count(column)), judge)


def mean_between(a: Arguments) -> Test:
    """The mean lies between two numbers, both included."""
    column, low, high = a.take_column("number"), a.take_number("the lower end"), a.take_number("the upper end")
    if low > high:
        raise BadArgument(f"{format_number(low)} is more than {format_number(high)}", "the smaller number comes first")
    value = build_mean(column)

    def judge(seen: Measurements) -> str | None:
        mean_value = value(seen)
        if mean_value is None or (is_satisfied(mean_value, ">=", low) and is_satisfied(mean_value, "<=", high)):
            return None
        limits = f"{format_number(low)} and {format_number(high)}"
        return f"the mean of {unquote_name(column)} is {format_number(mean_value)}, not between {limits}"

    return Figures((*build_sum_figures(column), build_count(column)), judge)


def total(a: Arguments) -> Test:
    """The sum compares as asked."""
    column = a.take_column("number")
    judge = build_comparison(
        f"the sum of {unquote_name(column)}", build_sum(column), a.take_operator(), a.take_number()
    )
    return Figures(build_sum_figures(column), judge)


def least(a: Arguments) -> Test:
    """The least value compares as asked."""
    return _compare_extreme(a, "min")


def greatest(a: Arguments) -> Test:
    """The greatest value compares as asked."""
    return _compare_extreme(a, "max")


def _compare_extreme(a: Arguments, function: str) -> Figures:
    """Compared by Spark and not here, as it may be a number, a text, a date or a timestamp."""
    name, comparison = a.take_name(), a.take_operator()
    value = a.take_literal()
    a.record_comparison(name, value)
    figure_name = f"{function}({name.lower()})"
    extreme = f"{function}({quote(name)})"
    verdict = f"{figure_name} {comparison} {value.sql}"

    def judge(seen: Measurements) -> str | None:
        if seen.figures[verdict] is not False:
            return None
        return f"the {function} of {name.lower()} is {seen.figures[figure_name]}, not {comparison} {value.sql}"

    figures = (
        Figure(figure_name, f"CAST({extreme} AS STRING)"),
        Figure(verdict, f"{extreme} {comparison} {value.sql}"),
    )
    return Figures(figures, judge)


def median(a: Arguments) -> Test:
    """The median compares as asked."""
    column = a.take_column("number")
    return _compare_figure(a, _build_percentile(column, Decimal("0.5")), f"the median of {unquote_name(column)}")


def stddev(a: Arguments) -> Test:
    """The standard deviation of the sample compares as asked; fewer than two values pass."""
    column = a.take_column("number")
    figure = Figure(f"stddev({unquote_name(column)})", f"stddev_samp(CAST({column} AS DOUBLE))")
    return _compare_figure(a, figure, f"the standard deviation of {unquote_name(column)}")


def percentile(a: Arguments) -> Test:
    """A percentile, given as a share from 0 to 1, compares as asked."""
    column, share = a.take_column("number"), a.take_number("the share")
    if not 0 <= share <= 1:
        raise BadArgument(f"{format_number(share)} is not a share from 0 to 1", "the 95th percentile is 0.95")
    return _compare_figure(
        a, _build_percentile(column, share), f"the percentile {format_number(share)} of {unquote_name(column)}"
    )


def _build_percentile(column: str, share: Decimal) -> Figure:
    """A percentile, exact for as many rows as it takes little memory, and else by rank within one in so many.

    A query of its own, as such aggregates make others in the same query slow.
    """
    values = build_template(
        f"(SELECT CAST(t.{column} AS DOUBLE) AS v, z.c AS c FROM ",
        WHOLE,
        " AS t CROSS JOIN (SELECT count(*) AS c FROM ",
        WHOLE,
        f") AS z WHERE t.{column} IS NOT NULL)",
    )
    exact = f"percentile(v, {share}) FILTER (WHERE c <= {_EXACT_ROWS})"
    near = f"percentile_approx(v, {share}, {_EXACT_ROWS}) FILTER (WHERE c > {_EXACT_ROWS})"
    return Figure(f"percentile({unquote_name(column)}, {format_number(share)})", f"coalesce({exact}, {near})", values)


def _compare_figure(a: Arguments, figure: Figure, what: str) -> Figures:
    return Figures(
        (figure,), build_comparison(what, lambda seen: seen.get_number(figure.name), a.take_operator(), a.take_number())
    )


def zscore(a: Arguments) -> Test:
    """No value is further from the mean than so many standard deviations; fewer than two values pass."""
    column, most = a.take_column("number"), a.take_number("the greatest distance")
    if most <= 0:
        raise BadArgument(f"`{format_number(most)}` is not a distance", "three standard deviations are 3")
    name, real = f"zscore({unquote_name(column)})", f"CAST({column} AS DOUBLE)"
    far = f"greatest(max({real}) - avg({real}), avg({real}) - min({real}))"
    figure = Figure(name, f"CASE WHEN stddev_samp({real}) > 0 THEN {far} / stddev_samp({real}) END")
    judge = build_comparison(
        f"the greatest z-score of {unquote_name(column)}", lambda seen: seen.get_number(name), "<=", most
    )
    usual = (f"(SELECT avg({real}) AS `sqb_mean`, stddev_samp({real}) AS `sqb_dev` FROM ", WHOLE, ") AS z")
    beyond = f"abs(CAST(t.{column} AS DOUBLE) - z.`sqb_mean`) > {most} * z.`sqb_dev`"
    sample = build_template("SELECT t.* FROM ", WHOLE, " AS t CROSS JOIN ", *usual, f" WHERE {beyond}")
    return Figures((figure,), judge, sample)


def entropy(a: Arguments) -> Test:
    """The entropy of the values, in bits, compares as asked."""
    figure = _build_entropy(a.take_column("comparable"))
    return Figures(
        (figure,),
        build_comparison("the entropy", lambda seen: seen.get_number(figure.name), a.take_operator(), a.take_number()),
    )


def low_entropy(a: Arguments) -> Test:
    """The entropy of the values, in bits, is not below a number."""
    figure, lowest = _build_entropy(a.take_column("comparable")), a.take_number("the least entropy")
    return Figures((figure,), build_comparison("the entropy", lambda seen: seen.get_number(figure.name), ">=", lowest))


def _build_entropy(column: str) -> Figure:
    groups = build_template("(SELECT count(*) AS n FROM ", WHOLE, f" WHERE {column} IS NOT NULL GROUP BY {column})")
    return Figure(f"entropy({unquote_name(column)})", "round(log2(sum(n)) - sum(n * log2(n)) / sum(n), 12)", groups)


def is_within(actual: Decimal, expected: Decimal, percent: Decimal) -> bool:
    """Whether a number is within so many percent of another."""
    return abs(actual - expected) * 100 <= percent * abs(expected)
