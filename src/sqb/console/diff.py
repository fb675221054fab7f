"""How two relations differ, as lines of text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sqb.console.paint import Paint, text_width

if TYPE_CHECKING:
    from sqb.build.diff import Answer, Side

_WIDEST_CELL = 32
# What stands before the first column of a row, and the sign that there are more.
_MARGIN = 5
_MOST_CHANGES = 6


def diff_lines(found: Answer, width: int, paint: Paint, labels: tuple[str, str] = ("from", "to")) -> Iterator[str]:
    """What was compared, the columns that differ, how many rows do, and some of them, in lines of about `width`."""
    yield f"{paint(found.question.node.name, 'bold')}: {found.before.what} → {found.now.what}"
    widest = max(map(len, labels))
    for label, side in zip(labels, (found.before, found.now), strict=True):
        yield paint(f"  {label.ljust(widest)}  {_side(side)}", "dim")
    if found.same:
        yield f"No differences: {_rows(found.before.rows or 0)}, {len(found.compared)} columns."
    else:
        yield from _columns(found, paint)
        yield from _row_lines(found, width, paint)
    yield from (paint(f"note: {note}", "yellow") for note in found.notes)


def _side(side: Side) -> str:
    version = f", snapshot {side.snapshot_id}" if side.snapshot_id is not None else ""
    rows = f": {_rows(side.rows)}" if side.rows is not None else ""
    return f"{side.relation}{version}{rows}"


def _rows(count: int) -> str:
    return f"{count:,} {'row' if count == 1 else 'rows'}"


def _columns(found: Answer, paint: Paint) -> Iterator[str]:
    if not found.columns:
        return
    added = [c for c in found.columns if c.before is None]
    removed = [c for c in found.columns if c.now is None]
    retyped = len(found.columns) - len(added) - len(removed)
    counts = [(len(added), "added"), (len(removed), "removed"), (retyped, "retyped")]
    yield f"Columns: {', '.join(f'{n} {what}' for n, what in counts if n)}"
    for change in found.columns:
        if change.before is None:
            yield paint(f"  + {change.name} {change.now}", "green")
        elif change.now is None:
            yield paint(f"  - {change.name} {change.before}", "red")
        else:
            yield paint(f"  ~ {change.name} {change.before} → {change.now}", "cyan")


def _row_lines(found: Answer, width: int, paint: Paint) -> Iterator[str]:
    rows = found.rows
    if rows is None:
        return
    by = f" by {', '.join(found.key)}" if found.key else ", whole rows compared"
    same = (found.before.rows or 0) - rows.removed - rows.changed
    if not found.differing_rows:
        yield f"Rows: the same {same:,} in the {len(found.compared)} columns that both have"
        return
    counts = [f"{rows.added:,} added", f"{rows.removed:,} removed"]
    counts += [f"{rows.changed:,} changed"] if found.key else []
    yield f"Rows{by}: {', '.join(counts)}, {same:,} unchanged"
    if rows.by_column:
        per = sorted(rows.by_column.items(), key=lambda item: (-item[1], item[0]))
        yield f"  changed in {', '.join(f'{name} ({count:,})' for name, count in per)}"
    yield from _samples(found, width, paint)
    yield from _changed(rows.changed_rows, rows.changed, paint)
    if not found.key and rows.added and rows.removed:
        yield "  (--key COLUMNS pairs rows, and shows what changed in them)"


def _samples(found: Answer, width: int, paint: Paint) -> Iterator[str]:
    """Rows that came and rows that went under one header, the key first, as many columns as there is room for."""
    rows = found.rows
    marked = [("+", "green", rows.added_rows, rows.added), ("-", "red", rows.removed_rows, rows.removed)]
    if not rows.added_rows and not rows.removed_rows:
        return
    names = [*found.key, *(c for c in found.compared if c not in found.key)]
    widths = [
        max(text_width(name), *(text_width(cell(row[name])) for _, _, some, _ in marked for row in some))
        for name in names
    ]
    shown = _fitting(widths, width)
    more = "  …" if shown < len(names) else ""
    yield "    " + ("  ".join(map(_padded, names[:shown], widths)) + more).rstrip()
    for mark, colour, some, total in marked:
        for row in some:
            cells = (cell(row[name]) for name in names[:shown])
            yield paint(f"  {mark} {'  '.join(map(_padded, cells, widths))}{more}".rstrip(), colour)
        if some and total > len(some):
            yield paint(f"  {mark} … and {total - len(some):,} more", colour)


def _fitting(widths: Sequence[int], width: int) -> int:
    """How many columns there is room for; two at least."""
    taken = _MARGIN
    for count, one in enumerate(widths):
        taken += one + 2
        if count >= 2 and taken > width:
            return count
    return len(widths)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - text_width(text))


def _changed(rows: Sequence[Any], total: int, paint: Paint) -> Iterator[str]:
    keys = [", ".join(f"{name}={cell(value)}" for name, value in row.key.items()) for row in rows]
    widest = max((text_width(key) for key in keys), default=0)
    for key, row in zip(keys, rows, strict=True):
        told = [f"{name} {cell(old)} → {cell(new)}" for name, (old, new) in row.changes.items()]
        more = f" and {len(told) - _MOST_CHANGES} more" if len(told) > _MOST_CHANGES else ""
        yield paint(f"  ~ {_padded(key, widest)}  {', '.join(told[:_MOST_CHANGES])}{more}".rstrip(), "cyan")
    if rows and total > len(rows):
        yield paint(f"  ~ … and {total - len(rows):,} more", "cyan")


def cell(value: Any) -> str:
    """A value as it is shown: short, on one line, and such that NULL and texts can be told apart."""
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
    return text if len(text) <= _WIDEST_CELL else text[: _WIDEST_CELL - 1] + "…"
