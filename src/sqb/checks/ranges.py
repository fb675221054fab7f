"""Checks of single values: compare, between, in_list, not_in, check, no_nan, finite. NULL passes all of them."""

from __future__ import annotations

from sqb.checks.arguments import Arguments, Wrong
from sqb.checks.values import RowTest, Test
from sqb.names import quote


def unless(holds: str) -> RowTest:
    """A row violates it when the condition is false; one that is NULL passes, as in SQL's own CHECK.

    No `coalesce`: Spark puts off a constant that cannot be evaluated inside of one, and then plans it for ever.
    """
    return RowTest(f"({holds}) <=> FALSE")


def compare(a: Arguments) -> Test:
    """The column compares as asked with a value or with another column."""
    name, operator = a.name(), a.operator()
    value = a.literal_or_column()
    a.compares(name, value)
    return unless(f"{quote(name)} {operator} {value.sql}")


def between(a: Arguments) -> Test:
    """The column lies between two values, both included."""
    name = a.name()
    low, high = a.literal("the lower end"), a.literal("the upper end")
    if low.number is not None and high.number is not None and low.number > high.number:
        raise Wrong(f"{low.number} is more than {high.number}", "the smaller value comes first")
    a.compares(name, low)
    a.compares(name, high)
    return unless(f"{quote(name)} BETWEEN {low.sql} AND {high.sql}")


def in_list(a: Arguments) -> Test:
    """The column has one of the values."""
    column, values = _listed(a)
    return unless(f"{column} IN ({values})")


def not_in(a: Arguments) -> Test:
    """The column has none of the values."""
    column, values = _listed(a)
    return unless(f"{column} NOT IN ({values})")


def _listed(a: Arguments) -> tuple[str, str]:
    name = a.name()
    if not a.left:
        raise Wrong("the values are missing")
    values = [a.literal() for _ in range(len(a.left))]
    for value in values:
        a.compares(name, value)
    return quote(name), ", ".join(value.sql for value in values)


def check(a: Arguments) -> Test:
    """A condition over the columns of a row holds."""
    return unless(a.expression())


def no_nan(a: Arguments) -> Test:
    """No value is NaN."""
    return RowTest(f"coalesce(isnan(CAST({a.column('number')} AS DOUBLE)), FALSE)")


def finite(a: Arguments) -> Test:
    """No value is NaN or infinite."""
    column = f"CAST({a.column('number')} AS DOUBLE)"
    return RowTest(f"coalesce(isnan({column}) OR abs({column}) = double('Infinity'), FALSE)")
