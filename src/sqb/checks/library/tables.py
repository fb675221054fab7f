"""Checks of a relation as a whole: row_count, freshness, column_exists, column_type."""

from __future__ import annotations

from collections.abc import Mapping

from sqb.checks.arguments import Arguments
from sqb.checks.model import ColumnTest, Figure, Figures, Measurements, Test
from sqb.checks.thresholds import ROWS, build_comparison, unquote_name
from sqb.names import find_nearest, format_seconds
from sqb.types.iceberg import to_stored_type
from sqb.types.model import Type, fold_names

_DAY = 86_400


def row_count(a: Arguments) -> Test:
    """The number of rows compares as asked."""
    return Figures(
        (ROWS,),
        build_comparison(
            "the number of rows", lambda seen: seen.get_number("rows"), a.take_operator(), a.take_number()
        ),
    )


def freshness(a: Arguments) -> Test:
    """The newest value is not older than a duration; a relation without a value fails."""
    column, limit = a.take_column("time"), a.take_duration()
    name = f"newest({unquote_name(column)})"
    figure = Figure(name, f"CAST(CAST(max({column}) AS TIMESTAMP) AS DOUBLE)")

    def judge(seen: Measurements) -> str | None:
        newest = seen.get_number(name)
        if newest is None:
            return f"no row has a value in {unquote_name(column)}"
        age = seen.now - float(newest)
        return (
            f"the newest {unquote_name(column)} is {_format_age(age)} old, more than {_format_age(limit)}"
            if age > limit
            else None
        )

    return Figures((figure,), judge)


def _format_age(seconds: float) -> str:
    return format_seconds(seconds) if seconds < 2 * _DAY else f"{seconds / _DAY:,.0f} days"


def column_exists(a: Arguments) -> Test:
    """The relation has the column."""
    name = a.take_name()

    def judge(columns: Mapping[str, Type]) -> str | None:
        return None if name.lower() in columns else _describe_missing(name, columns)

    return ColumnTest(judge)


def column_type(a: Arguments) -> Test:
    """The column has exactly the type."""
    name, expected = a.take_name(), a.take_type()

    def judge(columns: Mapping[str, Type]) -> str | None:
        actual = columns.get(name.lower())
        if actual is None:
            return _describe_missing(name, columns)
        # What a table holds an expected small integer as is that type too.
        accepted = {fold_names(expected), fold_names(to_stored_type(expected))}
        return None if fold_names(actual) in accepted else f"{name} is {actual}, not {expected}"

    return ColumnTest(judge)


def _describe_missing(name: str, columns: Mapping[str, Type]) -> str:
    close = find_nearest(name, columns)
    return f"there is no column {name}" + (f"; {close[0]} is the nearest" if close else "")
