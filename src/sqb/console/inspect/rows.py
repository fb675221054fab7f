"""Rows of a query as lines: a table where it fits the terminal, one line for each value where it does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqb.console.lines import format_table
from sqb.console.style import Paint, measure_text
from sqb.names import format_seconds
from sqb.operations.inspect.query import QueryResult
from sqb.operations.inspect.write_rows import format_plain


def format_rows(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], width: int | None, vertical: bool = False
) -> Iterator[str]:
    """Rows in aligned columns, or one value a line where that is asked for or they are wider than `width`."""
    cells = [["NULL" if value is None else format_plain(value) for value in row] for row in rows]
    table = [] if vertical else list(format_table(columns, cells))
    if vertical or (width is not None and rows and max(map(measure_text, table)) > width):
        yield from _format_vertically(columns, cells, width)
    else:
        yield from table


def _format_vertically(columns: Sequence[str], cells: Sequence[Sequence[str]], width: int | None) -> Iterator[str]:
    widest = max((measure_text(column) for column in columns), default=0)
    for number, row in enumerate(cells, 1):
        head = f"-[ row {number} ]"
        yield head + "-" * max(0, min(width or 80, 80) - len(head))
        for column, cell in zip(columns, row, strict=True):
            first, *more = cell.splitlines() or [""]
            yield f"{column}{' ' * (widest - measure_text(column))} | {_make_printable(first)}".rstrip()
            yield from (f"{' ' * widest} | {_make_printable(line)}".rstrip() for line in more)


def _make_printable(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def format_count(result: QueryResult, paint: Paint) -> Iterator[str]:
    """How many rows there are, how long they took, and what is to be known of them."""
    count, seconds = len(result.rows) or result.written, format_seconds(result.seconds)
    rows = f"{count:,} {'row' if count == 1 else 'rows'}"
    if result.output is not None:
        yield f"Wrote {rows} to {result.output} ({seconds})"
    elif result.is_cut:
        yield f"({rows}, the first of more: --limit N shows more, {seconds})"
    else:
        yield f"({rows}, {seconds})"
    yield from (paint(f"note: {note}", "yellow") for note in result.notes)
