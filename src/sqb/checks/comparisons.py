"""Checks against something else: references, reconcile_count, reconcile_sum, golden."""

from __future__ import annotations

from decimal import Decimal

from sqb.checks.arguments import Arguments
from sqb.checks.judging import ROWS, Value, name_of, shown, sum_of, sums
from sqb.checks.statistics import tolerated
from sqb.checks.values import (
    NEW,
    WHOLE,
    Figure,
    Figures,
    GoldenTest,
    Hole,
    Judge,
    Seen,
    Template,
    Test,
    Violations,
    sql,
)
from sqb.names import quote


def references(a: Arguments) -> Test:
    """Every value is in a column of another relation; NULL passes."""
    name = a.name()
    a.need(name, "comparable")
    column = quote(name)
    relation, key = a.relation_column(name)

    def lost(rows: Hole) -> Template:
        there = (f" AS n LEFT ANTI JOIN (SELECT {key} AS `sqb_key` FROM ", Hole("relation", relation), ") AS r")
        return sql("SELECT n.* FROM ", rows, *there, f" ON n.{column} = r.`sqb_key` WHERE n.{column} IS NOT NULL")

    return Violations(lost(WHOLE), lost(NEW))


def reconcile_count(a: Arguments) -> Test:
    """The number of rows is that of another relation, within a percentage of it where one is given."""
    relation = a.relation()
    percent = a.percent() if a.left else Decimal(0)
    other = Figure(f"rows of {relation}", "count(*)", sql(Hole("relation", relation)))
    judge = _reconciled(
        "the number of rows",
        lambda seen: seen.number(ROWS.name),
        lambda seen: seen.number(other.name),
        relation,
        percent,
    )
    return Figures((ROWS, other), judge)


def reconcile_sum(a: Arguments) -> Test:
    """The sum of a column is that of a column of another relation, within a percentage of it where one is given."""
    name = a.name()
    a.need(name, "number")
    column = quote(name)
    relation, key = a.relation_column(name)
    percent = a.percent() if a.left else Decimal(0)
    # The other relation's figures are of other rows, and so need other names.
    others = tuple(Figure(f"{f.name} of {relation}", f.sql, sql(Hole("relation", relation))) for f in sums(key))

    def there(seen: Seen) -> Decimal | None:
        exact, about = (seen.number(figure.name) for figure in others)
        return about if exact is None else exact

    what = f"the sum of {name_of(column)}"
    judge = _reconciled(what, sum_of(column), there, f"{relation}.{name_of(key)}", percent)
    return Figures((*sums(column), *others), judge)


def _reconciled(what: str, own: Value, other: Value, relation: str, percent: Decimal) -> Judge:
    def judge(seen: Seen) -> str | None:
        found, expected = own(seen) or Decimal(0), other(seen) or Decimal(0)
        if found.is_finite() and expected.is_finite() and tolerated(found, expected, percent):
            return None
        within = f", more than {shown(percent)}% apart" if percent else ""
        return f"{what} is {shown(found)}, but {shown(expected)} in {relation}{within}"

    return judge


def golden(a: Arguments) -> Test:
    """The relation, in the columns of a CSV file, has exactly that file's rows, each as often, in any order."""
    file, columns = a.golden()
    return GoldenTest(file, columns)
