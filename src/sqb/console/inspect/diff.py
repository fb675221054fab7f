"""How two relations differ, as lines of text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sqb.console.style import Paint, measure_text

if TYPE_CHECKING:
    from sqb.inspect.diff import DiffResult, Side

_MAX_CELL_WIDTH = 32
# The width of the mark before the first column, and of the sign that there are more.
_MARGIN = 5
_MAX_CHANGES = 6


def format_diff(
    answer: DiffResult, width: int, paint: Paint, labels: tuple[str, str] = ("from", "to")
) -> Iterator[str]:
    """What was compared, the columns that differ, how many rows do, and some of them, in lines of about `width`."""
    yield f"{paint(answer.question.node.name, 'bold')}: {answer.before.what} → {answer.now.what}"
    widest = max(map(len, labels))
    for label, side in zip(labels, (answer.before, answer.now), strict=True):
        yield paint(f"  {label.ljust(widest)}  {_format_side(side)}", "dim")
    if answer.same:
        yield f"No differences: {_format_row_count(answer.before.rows or 0)}, {len(answer.compared)} columns."
    else:
        yield from _format_columns(answer, paint)
        yield from _format_rows(answer, width, paint)
    yield from (paint(f"note: {note}", "yellow") for note in answer.notes)


def _format_side(side: Side) -> str:
    version = f", snapshot {side.snapshot_id}" if side.snapshot_id is not None else ""
    rows = f": {_format_row_count(side.rows)}" if side.rows is not None else ""
    return f"{side.relation}{version}{rows}"


def _format_row_count(count: int) -> str:
    return f"{count:,} {'row' if count == 1 else 'rows'}"


def _format_columns(answer: DiffResult, paint: Paint) -> Iterator[str]:
    if not answer.columns:
        return
    added = [c for c in answer.columns if c.before is None]
    removed = [c for c in answer.columns if c.now is None]
    retyped = len(answer.columns) - len(added) - len(removed)
    counts = [(len(added), "added"), (len(removed), "removed"), (retyped, "retyped")]
    yield f"Columns: {', '.join(f'{n} {what}' for n, what in counts if n)}"
    for change in answer.columns:
        if change.before is None:
            yield paint(f"  + {change.name} {change.now}", "green")
        elif change.now is None:
            yield paint(f"  - {change.name} {change.before}", "red")
        else:
            yield paint(f"  ~ {change.name} {change.before} → {change.now}", "cyan")


def _format_rows(answer: DiffResult, width: int, paint: Paint) -> Iterator[str]:
    rows = answer.rows
    if rows is None:
        return
    by = f" by {', '.join(answer.key)}" if answer.key else ", whole rows compared"
    same = (answer.before.rows or 0) - rows.removed - rows.changed
    if not answer.differing_rows:
        yield f"Rows: the same {same:,} in the {len(answer.compared)} columns that both have"
        return
    counts = [f"{rows.added:,} added", f"{rows.removed:,} removed"]
    counts += [f"{rows.changed:,} changed"] if answer.key else []
    yield f"Rows{by}: {', '.join(counts)}, {same:,} unchanged"
    if rows.by_column:
        per = sorted(rows.by_column.items(), key=lambda item: (-item[1], item[0]))
        yield f"  changed in {', '.join(f'{name} ({count:,})' for name, count in per)}"
    yield from _format_samples(answer, width, paint)
    yield from _format_changed_rows(rows.changed_rows, rows.changed, paint)
    if not answer.key and rows.added and rows.removed:
        yield "  (--key COLUMNS pairs rows, and shows what changed in them)"


def _format_samples(answer: DiffResult, width: int, paint: Paint) -> Iterator[str]:
    """Added and removed rows under one header, the key first, as many columns as there is room for."""
    rows = answer.rows
    marked = [("+", "green", rows.added_rows, rows.added), ("-", "red", rows.removed_rows, rows.removed)]
    if not rows.added_rows and not rows.removed_rows:
        return
    names = [*answer.key, *(c for c in answer.compared if c not in answer.key)]
    widths = [
        max(measure_text(name), *(measure_text(format_cell(row[name])) for _, _, some, _ in marked for row in some))
        for name in names
    ]
    shown = _count_fitting(widths, width)
    more = "  …" if shown < len(names) else ""
    yield "    " + ("  ".join(map(_pad, names[:shown], widths)) + more).rstrip()
    for mark, colour, some, total in marked:
        for row in some:
            cells = (format_cell(row[name]) for name in names[:shown])
            yield paint(f"  {mark} {'  '.join(map(_pad, cells, widths))}{more}".rstrip(), colour)
        if some and total > len(some):
            yield paint(f"  {mark} … and {total - len(some):,} more", colour)


def _count_fitting(widths: Sequence[int], width: int) -> int:
    """How many columns there is room for; two at least."""
    used = _MARGIN
    for count, column_width in enumerate(widths):
        used += column_width + 2
        if count >= 2 and used > width:
            return count
    return len(widths)


def _pad(text: str, width: int) -> str:
    return text + " " * (width - measure_text(text))


def _format_changed_rows(rows: Sequence[Any], total: int, paint: Paint) -> Iterator[str]:
    keys = [", ".join(f"{name}={format_cell(value)}" for name, value in row.key.items()) for row in rows]
    widest = max((measure_text(key) for key in keys), default=0)
    for key, row in zip(keys, rows, strict=True):
        changes = [f"{name} {format_cell(old)} → {format_cell(new)}" for name, (old, new) in row.changes.items()]
        more = f" and {len(changes) - _MAX_CHANGES} more" if len(changes) > _MAX_CHANGES else ""
        yield paint(f"  ~ {_pad(key, widest)}  {', '.join(changes[:_MAX_CHANGES])}{more}".rstrip(), "cyan")
    if rows and total > len(rows):
        yield paint(f"  ~ … and {total - len(rows):,} more", "cyan")


def format_cell(value: Any) -> str:
    """A value as it is shown: short, on one line, and such that NULL and texts differ."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case str():
            text = repr(value) if value != value.strip() or value in ("", "NULL") else value
        case list() | dict():
            text = json.dumps(value, ensure_ascii=False)
        case _:
            text = str(value)
    if not text.isprintable():
        text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return text if len(text) <= _MAX_CELL_WIDTH else text[: _MAX_CELL_WIDTH - 1] + "…"
