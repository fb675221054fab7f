"""Checks against something else: references, reconcile_count, reconcile_sum, golden."""

from __future__ import annotations

from decimal import Decimal

from sqb.checks.arguments import Arguments
from sqb.checks.library.statistics import is_within
from sqb.checks.model import (
    NEW,
    WHOLE,
    Figure,
    Figures,
    GoldenTest,
    Judge,
    Measurements,
    RelationSlot,
    Template,
    Test,
    Violations,
    build_template,
)
from sqb.checks.thresholds import ROWS, Value, build_sum, build_sum_figures, format_number, unquote_name
from sqb.names import quote


def references(a: Arguments) -> Test:
    """Every value is in a column of another relation; NULL passes."""
    name = a.take_name()
    a.require_column(name, "comparable")
    column = quote(name)
    relation, key = a.take_relation_column(name)

    def select_orphans(rows: RelationSlot) -> Template:
        there = (f" AS n LEFT ANTI JOIN (SELECT {key} AS `sqb_key` FROM ", RelationSlot("relation", relation), ") AS r")
        return build_template(
            "SELECT n.* FROM ", rows, *there, f" ON n.{column} = r.`sqb_key` WHERE n.{column} IS NOT NULL"
        )

    return Violations(select_orphans(WHOLE), select_orphans(NEW))


def reconcile_count(a: Arguments) -> Test:
    """The number of rows is that of another relation, within a percentage of it where one is given."""
    relation = a.take_relation()
    percent = a.take_percent() if a.left else Decimal(0)
    other = Figure(f"rows of {relation}", "count(*)", build_template(RelationSlot("relation", relation)))
    judge = _judge_reconciliation(
        "the number of rows",
        lambda seen: seen.get_number(ROWS.name),
        lambda seen: seen.get_number(other.name),
        relation,
        percent,
    )
    return Figures((ROWS, other), judge)


def reconcile_sum(a: Arguments) -> Test:
    """The sum of a column is that of a column of another relation, within a percentage of it where one is given."""
    name = a.take_name()
    a.require_column(name, "number")
    column = quote(name)
    relation, key = a.take_relation_column(name)
    percent = a.take_percent() if a.left else Decimal(0)
    # The other relation's figures are of other rows, and so need other names.
    others = tuple(
        Figure(f"{f.name} of {relation}", f.sql, build_template(RelationSlot("relation", relation)))
        for f in build_sum_figures(key)
    )

    def there(seen: Measurements) -> Decimal | None:
        exact, about = (seen.get_number(figure.name) for figure in others)
        return about if exact is None else exact

    what = f"the sum of {unquote_name(column)}"
    judge = _judge_reconciliation(what, build_sum(column), there, f"{relation}.{unquote_name(key)}", percent)
    return Figures((*build_sum_figures(column), *others), judge)


def _judge_reconciliation(what: str, value: Value, other: Value, relation: str, percent: Decimal) -> Judge:
    def judge(seen: Measurements) -> str | None:
        actual, expected = value(seen) or Decimal(0), other(seen) or Decimal(0)
        if actual.is_finite() and expected.is_finite() and is_within(actual, expected, percent):
            return None
        within = f", more than {format_number(percent)}% apart" if percent else ""
        return f"{what} is {format_number(actual)}, but {format_number(expected)} in {relation}{within}"

    return judge


def golden(a: Arguments) -> Test:
    """The relation, in the columns of a CSV file, has exactly that file's rows, each as often, in any order."""
    file, columns = a.take_golden()
    return GoldenTest(file, columns)
