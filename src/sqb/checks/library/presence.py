"""Checks that something is there: not_null, not_empty, at_least_one, null_percent, required_if."""

from __future__ import annotations

from decimal import Decimal

from sqb.checks.arguments import Arguments
from sqb.checks.model import WHOLE, Figures, Measurements, RowTest, Test, build_template
from sqb.checks.thresholds import ROWS, build_comparison, build_count, compute_percentage, unquote_name
from sqb.types.literals import format_literal


def not_null(a: Arguments) -> Test:
    """No row has NULL in any of the columns."""
    return RowTest(" OR ".join(f"{column} IS NULL" for column in a.take_columns("any")))


def not_empty(a: Arguments) -> Test:
    """No text is empty, no array or map without elements; NULL passes."""
    column = a.take_column("text or collection")
    # One form for all types, as none is known here; only what looks empty is written as JSON to make sure.
    empty = ", ".join(format_literal(f'{{"v":{value}}}') for value in ('""', "[]", "{}"))
    seems = f"CAST({column} AS STRING) IN ('', '[]', '{{}}')"
    return RowTest(f"coalesce({seems} AND to_json(struct({column} AS v)) IN ({empty}), FALSE)")


def at_least_one(a: Arguments) -> Test:
    """At least one row has a value; an empty relation fails."""
    column = a.take_column()
    figure = build_count(column)

    def judge(seen: Measurements) -> str | None:
        return None if seen.get_number(figure.name) else f"no row has a value in {unquote_name(column)}"

    return Figures((figure,), judge)


def null_percent(a: Arguments) -> Test:
    """At most so many percent of the rows have NULL; an empty relation passes."""
    column, most = a.take_column(), a.take_percent()
    values = build_count(column)

    def value(seen: Measurements) -> Decimal | None:
        rows, present = seen.get_number("rows"), seen.get_number(values.name)
        return compute_percentage(rows - present, rows) if rows is not None and present is not None else None

    judge = build_comparison(f"the percentage of NULL in {unquote_name(column)}", value, "<=", most)
    return Figures((ROWS, values), judge, build_template("SELECT * FROM ", WHOLE, f" WHERE {column} IS NULL"))


def required_if(a: Arguments) -> Test:
    """No row in which the condition is true has NULL in the column."""
    column, condition = a.take_column(), a.take_expression()
    return RowTest(f"{column} IS NULL AND {condition} <=> TRUE")
