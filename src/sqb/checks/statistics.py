"""Checks of figures over a column: mean, min, max, sum, median, stddev, zscore, percentile, entropy.

A figure that is NULL, as those of an empty relation or of a column of NULLs are, passes.
"""

from __future__ import annotations

from decimal import Decimal

from sqb.checks.arguments import Arguments, Wrong
from sqb.checks.judging import compared, counted, holds, mean_of, name_of, shown, sum_of, sums
from sqb.checks.values import WHOLE, Figure, Figures, Seen, Test, sql
from sqb.names import quote

_EXACT_ROWS = 100000


def mean(a: Arguments) -> Test:
    """The mean compares as asked."""
    column = a.column("number")
    judge = compared(f"the mean of {name_of(column)}", mean_of(column), a.operator(), a.number())
    return Figures((*sums(column), counted(column)), judge)


def mean_between(a: Arguments) -> Test:
    """The mean lies between two numbers, both included."""
    column, low, high = a.column("number"), a.number("the lower end"), a.number("the upper end")
    if low > high:
        raise Wrong(f"{shown(low)} is more than {shown(high)}", "the smaller number comes first")
    value = mean_of(column)

    def judge(seen: Seen) -> str | None:
        found = value(seen)
        if found is None or (holds(found, ">=", low) and holds(found, "<=", high)):
            return None
        return f"the mean of {name_of(column)} is {shown(found)}, not between {shown(low)} and {shown(high)}"

    return Figures((*sums(column), counted(column)), judge)


def total(a: Arguments) -> Test:
    """The sum compares as asked."""
    column = a.column("number")
    judge = compared(f"the sum of {name_of(column)}", sum_of(column), a.operator(), a.number())
    return Figures(sums(column), judge)


def least(a: Arguments) -> Test:
    """The least value compares as asked."""
    return _extreme(a, "min")


def greatest(a: Arguments) -> Test:
    """The greatest value compares as asked."""
    return _extreme(a, "max")


def _extreme(a: Arguments, function: str) -> Figures:
    """Compared by Spark and not here, as it may be a number, a text, a date or a timestamp."""
    name, comparison = a.name(), a.operator()
    value = a.literal()
    a.compares(name, value)
    found = f"{function}({name.lower()})"
    extreme = f"{function}({quote(name)})"
    verdict = f"{found} {comparison} {value.sql}"

    def judge(seen: Seen) -> str | None:
        if seen.figures[verdict] is not False:
            return None
        return f"the {function} of {name.lower()} is {seen.figures[found]}, not {comparison} {value.sql}"

    figures = (Figure(found, f"CAST({extreme} AS STRING)"), Figure(verdict, f"{extreme} {comparison} {value.sql}"))
    return Figures(figures, judge)


def median(a: Arguments) -> Test:
    """The median compares as asked."""
    column = a.column("number")
    return _one(a, _ranked(column, Decimal("0.5")), f"the median of {name_of(column)}")


def stddev(a: Arguments) -> Test:
    """The standard deviation of the sample compares as asked; fewer than two values pass."""
    column = a.column("number")
    figure = Figure(f"stddev({name_of(column)})", f"stddev_samp(CAST({column} AS DOUBLE))")
    return _one(a, figure, f"the standard deviation of {name_of(column)}")


def percentile(a: Arguments) -> Test:
    """A percentile, given as a share from 0 to 1, compares as asked."""
    column, share = a.column("number"), a.number("the share")
    if not 0 <= share <= 1:
        raise Wrong(f"{shown(share)} is not a share from 0 to 1", "the 95th percentile is 0.95")
    return _one(a, _ranked(column, share), f"the percentile {shown(share)} of {name_of(column)}")


def _ranked(column: str, share: Decimal) -> Figure:
    """A percentile, exact for as many rows as it takes little memory, and else by rank within one in so many.

    A query of its own, as such aggregates make others in the same query slow.
    """
    values = sql(
        f"(SELECT CAST(t.{column} AS DOUBLE) AS v, z.c AS c FROM ",
        WHOLE,
        " AS t CROSS JOIN (SELECT count(*) AS c FROM ",
        WHOLE,
        f") AS z WHERE t.{column} IS NOT NULL)",
    )
    exact = f"percentile(v, {share}) FILTER (WHERE c <= {_EXACT_ROWS})"
    near = f"percentile_approx(v, {share}, {_EXACT_ROWS}) FILTER (WHERE c > {_EXACT_ROWS})"
    return Figure(f"percentile({name_of(column)}, {shown(share)})", f"coalesce({exact}, {near})", values)


def _one(a: Arguments, figure: Figure, what: str) -> Figures:
    return Figures((figure,), compared(what, lambda seen: seen.number(figure.name), a.operator(), a.number()))


def zscore(a: Arguments) -> Test:
    """No value is further from the mean than so many standard deviations; fewer than two values pass."""
    column, most = a.column("number"), a.number("the greatest distance")
    if most <= 0:
        raise Wrong(f"`{shown(most)}` is not a distance", "three standard deviations are 3")
    name, real = f"zscore({name_of(column)})", f"CAST({column} AS DOUBLE)"
    far = f"greatest(max({real}) - avg({real}), avg({real}) - min({real}))"
    figure = Figure(name, f"CASE WHEN stddev_samp({real}) > 0 THEN {far} / stddev_samp({real}) END")
    judge = compared(f"the greatest z-score of {name_of(column)}", lambda seen: seen.number(name), "<=", most)
    usual = (f"(SELECT avg({real}) AS `sqb_mean`, stddev_samp({real}) AS `sqb_dev` FROM ", WHOLE, ") AS z")
    beyond = f"abs(CAST(t.{column} AS DOUBLE) - z.`sqb_mean`) > {most} * z.`sqb_dev`"
    sample = sql("SELECT t.* FROM ", WHOLE, " AS t CROSS JOIN ", *usual, f" WHERE {beyond}")
    return Figures((figure,), judge, sample)


def entropy(a: Arguments) -> Test:
    """The entropy of the values, in bits, compares as asked."""
    figure = _entropy(a.column("comparable"))
    return Figures((figure,), compared("the entropy", lambda seen: seen.number(figure.name), a.operator(), a.number()))


def low_entropy(a: Arguments) -> Test:
    """The entropy of the values, in bits, is not below a number."""
    figure, lowest = _entropy(a.column("comparable")), a.number("the least entropy")
    return Figures((figure,), compared("the entropy", lambda seen: seen.number(figure.name), ">=", lowest))


def _entropy(column: str) -> Figure:
    groups = sql("(SELECT count(*) AS n FROM ", WHOLE, f" WHERE {column} IS NOT NULL GROUP BY {column})")
    return Figure(f"entropy({name_of(column)})", "round(log2(sum(n)) - sum(n * log2(n)) / sum(n), 12)", groups)


def tolerated(found: Decimal, expected: Decimal, percent: Decimal) -> bool:
    """Whether a number is within so many percent of another."""
    return abs(found - expected) * 100 <= percent * abs(expected)
