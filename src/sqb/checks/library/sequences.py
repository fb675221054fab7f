"""Checks of rows in order: sequential, sequential_step, no_overlap. They hold for the whole relation."""

from __future__ import annotations

from decimal import Decimal

from sqb.checks.arguments import Arguments, BadArgument
from sqb.checks.model import WHOLE, ComparedColumns, Figure, Figures, Measurements, Test, Violations, build_template
from sqb.checks.thresholds import build_count, build_distinct_count, format_number, unquote_name
from sqb.names import quote


def sequential(a: Arguments) -> Test:
    """The values, sorted, go up by one, without gaps and repetitions; NULL is left out."""
    return _build_step_test(a.take_column("exact"), Decimal(1))


def sequential_step(a: Arguments) -> Test:
    """The values, sorted, go up by a fixed step, without gaps and repetitions; NULL is left out."""
    column, step = a.take_column("exact"), a.take_number("the step")
    if step <= 0:
        raise BadArgument(f"the step {format_number(step)} does not go up")
    return _build_step_test(column, step)


def _build_step_test(column: str, step: Decimal) -> Figures:
    """Different values on the same grid, and as many of them as fit between the first and the last, are all of it."""
    name, rest = unquote_name(column), f"pmod({column}, {step})"
    ends = [Figure(f"{end}({name})", f"CAST({end}({column}) AS STRING)") for end in ("min", "max")]
    grid = Figure(f"grid({name}, {step})", f"min({rest}) = max({rest})")
    count, values = build_count(column), build_distinct_count(column)

    def judge(seen: Measurements) -> str | None:
        rows, first, last = (seen.get_number(figure.name) for figure in (count, *ends))
        if not rows or first is None or last is None:
            return None
        if seen.get_number(values.name) != rows:
            return f"{name} has repeated values"
        if not seen.figures[grid.name] or last - first != (rows - 1) * step:
            return f"{name} does not go up by {format_number(step)} everywhere"
        return None

    ordered = (f"SELECT lag({column}) OVER (ORDER BY {column}) AS `value before`, {column} FROM ", WHOLE)
    gaps = build_template(
        "SELECT * FROM (", *ordered, f" WHERE {column} IS NOT NULL) WHERE {column} - `value before` <> {step}"
    )
    return Figures((*ends, grid, count, values), judge, gaps)


def no_overlap(a: Arguments) -> Test:
    """No two ranges `[start, end)` overlap, within equal values of the columns given after them.

    An end that is NULL is open; rows without a start, and empty ranges, overlap with nothing.
    """
    first, last = a.take_name("the start"), a.take_name("the end")
    a.require_column(first, "comparable")
    a.require_column(last, "comparable")
    a.alike.append(ComparedColumns(first, last))
    start, end = quote(first), quote(last)
    groups = [a.take_column("comparable") for _ in range(len(a.left))]
    by = f"PARTITION BY {', '.join(groups)} " if groups else ""
    before = f"OVER ({by}ORDER BY {start}, {end} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    return Violations(
        build_template(
            f"SELECT * EXCEPT (`sqb_open`, `sqb_end`) FROM (SELECT *, bool_or({end} IS NULL) {before} AS `sqb_open`,"
            f" max({end}) {before} AS `sqb_end` FROM ",
            WHOLE,
            f" WHERE {start} IS NOT NULL AND ({end} IS NULL OR {end} > {start}))"
            f" WHERE `sqb_open` OR `sqb_end` > {start}",
        )
    )
