"""Checks of how often values repeat: unique, primary_key, duplicate_percent, distinct_count and their kin."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from sqb.checks.arguments import Arguments
from sqb.checks.model import NEW, WHOLE, Figure, Figures, Measurements, RelationSlot, Test, Violations, build_template
from sqb.checks.thresholds import build_comparison, build_distinct_count, compute_percentage, unquote_name

_TIMES = "`number of rows`"


def unique(a: Arguments) -> Test:
    """No two rows have the same value; rows with NULL in a column are not compared."""
    return _build_duplicates(a.take_columns(), nulls=False)


def composite_unique(a: Arguments) -> Test:
    """No two rows have the same combination of values; rows with NULL in one of them are not compared."""
    return _build_duplicates(a.take_columns(least=2), nulls=False)


def primary_key(a: Arguments) -> Test:
    """No two rows have the same key, and no row has NULL in it."""
    return _build_duplicates(a.take_columns(), nulls=True)


def _build_duplicates(columns: Sequence[str], nulls: bool) -> Violations:
    keys = ", ".join(columns)
    missing = " OR ".join(f"{column} IS NULL" for column in columns)
    where = "" if nulls else f" WHERE NOT ({missing})"
    bad = f"count(*) > 1 OR {missing}" if nulls else "count(*) > 1"
    head, tail = f"SELECT {keys}, count(*) AS {_TIMES} FROM ", f"{where} GROUP BY {keys} HAVING {bad}"
    same = " AND ".join(f"w.{column} <=> n.{column}" for column in columns)
    wide = ", ".join(f"w.{column}" for column in columns)
    touched: tuple[str | RelationSlot, ...] = (
        f"(SELECT {wide} FROM ", WHOLE, f" AS w LEFT SEMI JOIN (SELECT DISTINCT {keys} FROM ", NEW, f") AS n ON {same})"
    )  # fmt: skip
    return Violations(build_template(head, WHOLE, tail), build_template(head, *touched, tail), weight=_TIMES.strip("`"))


def duplicate_percent(a: Arguments) -> Test:
    """At most so many percent of the rows repeat the value of another; NULL is left out, an empty relation passes."""
    columns = [a.take_column("comparable") for _ in range(max(1, len(a.left) - 1))]
    most = a.take_percent()
    present = Figure(
        f"present({', '.join(map(unquote_name, columns))})",
        f"count_if({' AND '.join(f'{column} IS NOT NULL' for column in columns)})",
    )
    values = build_distinct_count(*columns)

    def value(seen: Measurements) -> Decimal | None:
        rows, different = seen.get_number(present.name), seen.get_number(values.name)
        return compute_percentage(rows - different, rows) if rows is not None and different is not None else None

    judge = build_comparison("the percentage of duplicates", value, "<=", most)
    return Figures((present, values), judge, _build_duplicates(columns, nulls=False).query)


def not_constant(a: Arguments) -> Test:
    """There are at least two different values; a relation without any value passes."""
    column = a.take_column("comparable")
    name = f"constant({unquote_name(column)})"
    figure = Figure(name, f"coalesce(min({column}) = max({column}), FALSE)")

    def judge(seen: Measurements) -> str | None:
        return f"{unquote_name(column)} has the same value in every row" if seen.figures[name] else None

    return Figures((figure,), judge)


def distinct_count(a: Arguments) -> Test:
    """The number of different values compares as asked; NULL is none."""
    column = a.take_column("comparable")
    figure = build_distinct_count(column)
    what = f"the number of different values of {unquote_name(column)}"
    return Figures(
        (figure,), build_comparison(what, lambda seen: seen.get_number(figure.name), a.take_operator(), a.take_number())
    )


def approx_distinct(a: Arguments) -> Test:
    """The number of different values, estimated, compares as asked."""
    column = a.take_column("comparable")
    figure = Figure(f"approx_distinct({unquote_name(column)})", f"approx_count_distinct({column})")
    what = f"the estimated number of different values of {unquote_name(column)}"
    return Figures(
        (figure,), build_comparison(what, lambda seen: seen.get_number(figure.name), a.take_operator(), a.take_number())
    )
