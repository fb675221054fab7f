"""Checks that something is there: not_null, not_empty, at_least_one, null_percent, required_if."""

from __future__ import annotations

from decimal import Decimal

from sqb.checks.arguments import Arguments
from sqb.checks.judging import ROWS, compared, counted, name_of, percentage
from sqb.checks.values import WHOLE, Figures, RowTest, Seen, Test, sql
from sqb.sql.expand import literal


def not_null(a: Arguments) -> Test:
    """No row has NULL in any of the columns."""
    return RowTest(" OR ".join(f"{column} IS NULL" for column in a.columns("any")))


def not_empty(a: Arguments) -> Test:
    """No text is empty, no array or map without elements; NULL passes."""
    column = a.column("text or collection")
    # One form for all types, as none is known here; only what looks empty is written as JSON to make sure.
    empty = ", ".join(literal(f'{{"v":{value}}}') for value in ('""', "[]", "{}"))
    seems = f"CAST({column} AS STRING) IN ('', '[]', '{{}}')"
    return RowTest(f"coalesce({seems} AND to_json(struct({column} AS v)) IN ({empty}), FALSE)")


def at_least_one(a: Arguments) -> Test:
    """At least one row has a value; an empty relation fails."""
    column = a.column()
    figure = counted(column)

    def judge(seen: Seen) -> str | None:
        return None if seen.number(figure.name) else f"no row has a value in {name_of(column)}"

    return Figures((figure,), judge)


def null_percent(a: Arguments) -> Test:
    """At most so many percent of the rows have NULL; an empty relation passes."""
    column, most = a.column(), a.percent()
    values = counted(column)

    def value(seen: Seen) -> Decimal | None:
        rows, present = seen.number("rows"), seen.number(values.name)
        return percentage(rows - present, rows) if rows is not None and present is not None else None

    judge = compared(f"the percentage of NULL in {name_of(column)}", value, "<=", most)
    return Figures((ROWS, values), judge, sql("SELECT * FROM ", WHOLE, f" WHERE {column} IS NULL"))


def required_if(a: Arguments) -> Test:
    """No row in which the condition is true has NULL in the column."""
    column, condition = a.column(), a.expression()
    return RowTest(f"{column} IS NULL AND {condition} <=> TRUE")
