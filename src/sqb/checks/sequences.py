"""Checks of rows in order: sequential, sequential_step, no_overlap. They hold for the whole relation."""

from __future__ import annotations

from decimal import Decimal

from sqb.checks.arguments import Arguments, Wrong
from sqb.checks.judging import counted, distinct, name_of, shown
from sqb.checks.values import WHOLE, Alike, Figure, Figures, Seen, Test, Violations, sql
from sqb.names import quote


def sequential(a: Arguments) -> Test:
    """The values, sorted, go up by one, without gaps and repetitions; NULL is left out."""
    return _steps(a.column("exact"), Decimal(1))


def sequential_step(a: Arguments) -> Test:
    """The values, sorted, go up by a fixed step, without gaps and repetitions; NULL is left out."""
    column, step = a.column("exact"), a.number("the step")
    if step <= 0:
        raise Wrong(f"the step {shown(step)} does not go up")
    return _steps(column, step)


def _steps(column: str, step: Decimal) -> Figures:
    """Different values on the same grid, and as many of them as fit between the first and the last, are all of it."""
    name, rest = name_of(column), f"pmod({column}, {step})"
    ends = [Figure(f"{end}({name})", f"CAST({end}({column}) AS STRING)") for end in ("min", "max")]
    grid = Figure(f"grid({name}, {step})", f"min({rest}) = max({rest})")
    count, values = counted(column), distinct(column)

    def judge(seen: Seen) -> str | None:
        rows, first, last = (seen.number(figure.name) for figure in (count, *ends))
        if not rows or first is None or last is None:
            return None
        if seen.number(values.name) != rows:
            return f"{name} has repeated values"
        if not seen.figures[grid.name] or last - first != (rows - 1) * step:
            return f"{name} does not go up by {shown(step)} everywhere"
        return None

    ordered = (f"SELECT lag({column}) OVER (ORDER BY {column}) AS `value before`, {column} FROM ", WHOLE)
    gaps = sql("SELECT * FROM (", *ordered, f" WHERE {column} IS NOT NULL) WHERE {column} - `value before` <> {step}")
    return Figures((*ends, grid, count, values), judge, gaps)


def no_overlap(a: Arguments) -> Test:
    """No two ranges `[start, end)` overlap, within equal values of the columns given after them.

    An end that is NULL is open; rows without a start, and empty ranges, overlap with nothing.
    """
    first, last = a.name("the start"), a.name("the end")
    a.need(first, "comparable")
    a.need(last, "comparable")
    a.alike.append(Alike(first, last))
    start, end = quote(first), quote(last)
    groups = [a.column("comparable") for _ in range(len(a.left))]
    by = f"PARTITION BY {', '.join(groups)} " if groups else ""
    before = f"OVER ({by}ORDER BY {start}, {end} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    return Violations(
        sql(
            f"SELECT * EXCEPT (`sqb_open`, `sqb_end`) FROM (SELECT *, bool_or({end} IS NULL) {before} AS `sqb_open`,"
            f" max({end}) {before} AS `sqb_end` FROM ",
            WHOLE,
            f" WHERE {start} IS NOT NULL AND ({end} IS NULL OR {end} > {start}))"
            f" WHERE `sqb_open` OR `sqb_end` > {start}",
        )
    )
