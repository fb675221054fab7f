"""Checks of single values: compare, between, in_list, not_in, check, no_nan, finite. NULL passes all of them."""

from __future__ import annotations

from sqb.checks.arguments import Arguments, BadArgument
from sqb.checks.model import RowTest, Test
from sqb.names import quote


def build_row_test(holds: str) -> RowTest:
    """A row violates it when the condition is false; one that is NULL passes, as in SQL's own CHECK.

    No `coalesce`: Spark puts off a constant that cannot be evaluated inside of one, and then plans it for ever.
    """
    return RowTest(f"({holds}) <=> FALSE")


def compare(a: Arguments) -> Test:
    """The column compares as asked with a value or with another column."""
    name, operator = a.take_name(), a.take_operator()
    value = a.take_literal_or_column()
    a.record_comparison(name, value)
    return build_row_test(f"{quote(name)} {operator} {value.sql}")


def between(a: Arguments) -> Test:
    """The column lies between two values, both included."""
    name = a.take_name()
    low, high = a.take_literal("the lower end"), a.take_literal("the upper end")
    if low.number is not None and high.number is not None and low.number > high.number:
        raise BadArgument(f"{low.number} is more than {high.number}", "the smaller value comes first")
    a.record_comparison(name, low)
    a.record_comparison(name, high)
    return build_row_test(f"{quote(name)} BETWEEN {low.sql} AND {high.sql}")


def in_list(a: Arguments) -> Test:
    """The column has one of the values."""
    column, values = _take_list(a)
    return build_row_test(f"{column} IN ({values})")


def not_in(a: Arguments) -> Test:
    """The column has none of the values."""
    column, values = _take_list(a)
    return build_row_test(f"{column} NOT IN ({values})")


def _take_list(a: Arguments) -> tuple[str, str]:
    name = a.take_name()
    if not a.left:
        raise BadArgument("the values are missing")
    values = [a.take_literal() for _ in range(len(a.left))]
    for value in values:
        a.record_comparison(name, value)
    return quote(name), ", ".join(value.sql for value in values)


def check(a: Arguments) -> Test:
    """A condition over the columns of a row holds."""
    return build_row_test(a.take_expression())


def no_nan(a: Arguments) -> Test:
    """No value is NaN."""
    return RowTest(f"coalesce(isnan(CAST({a.take_column('number')} AS DOUBLE)), FALSE)")


def finite(a: Arguments) -> Test:
    """No value is NaN or infinite."""
    column = f"CAST({a.take_column('number')} AS DOUBLE)"
    return RowTest(f"coalesce(isnan({column}) OR abs({column}) = double('Infinity'), FALSE)")
