"""Checks of a relation as a whole: row_count, freshness, column_exists, column_type."""

from __future__ import annotations

from collections.abc import Mapping

from sqb.checks.arguments import Arguments
from sqb.checks.judging import ROWS, compared, name_of
from sqb.checks.types import type_words
from sqb.checks.values import ColumnTest, Figure, Figures, Seen, Test
from sqb.names import human_seconds, nearest
from sqb.project.column_types import parse_type, type_text

_DAY = 86_400


def row_count(a: Arguments) -> Test:
    """The number of rows compares as asked."""
    return Figures((ROWS,), compared("the number of rows", lambda seen: seen.number("rows"), a.operator(), a.number()))


def freshness(a: Arguments) -> Test:
    """The newest value is not older than a duration; a relation without a value fails."""
    column, limit = a.column("time"), a.duration()
    name = f"newest({name_of(column)})"
    figure = Figure(name, f"CAST(CAST(max({column}) AS TIMESTAMP) AS DOUBLE)")

    def judge(seen: Seen) -> str | None:
        newest = seen.number(name)
        if newest is None:
            return f"no row has a value in {name_of(column)}"
        age = seen.now - float(newest)
        return f"the newest {name_of(column)} is {_age(age)} old, more than {_age(limit)}" if age > limit else None

    return Figures((figure,), judge)


def _age(seconds: float) -> str:
    return human_seconds(seconds) if seconds < 2 * _DAY else f"{seconds / _DAY:,.0f} days"


def column_exists(a: Arguments) -> Test:
    """The relation has the column."""
    name = a.name()

    def judge(columns: Mapping[str, str]) -> str | None:
        return None if name.lower() in columns else _missing(name, columns)

    return ColumnTest(judge)


def column_type(a: Arguments) -> Test:
    """The column has exactly the type."""
    name, wanted = a.name(), a.type()

    def judge(columns: Mapping[str, str]) -> str | None:
        found = columns.get(name.lower())
        if found is None:
            return _missing(name, columns)
        shown = type_text(wanted).lower()
        same = parse_type(found.lower()) == parse_type(shown)
        return None if same else f"{name} is {type_words(found)}, not {type_words(shown.replace('`', ''))}"

    return ColumnTest(judge)


def _missing(name: str, columns: Mapping[str, str]) -> str:
    close = nearest(name, columns)
    return f"there is no column {name}" + (f"; {close[0]} is the nearest" if close else "")
