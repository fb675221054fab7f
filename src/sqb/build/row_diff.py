"""Expected rows against the rows that came: the same multiset, or a difference that people can read.

Pure: knows rows of canonical values and their types, neither Spark nor where they came from.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

from sqb.errors import UnfitTestValue, UnknownTestColumn
from sqb.names import At, did_you_mean
from sqb.project.column_types import Type, shown_cell, shown_value, type_text, value_of
from sqb.project.unit_tests import Rows

_SHOWN_CHANGES = 10
_SHOWN_AGREEING = 3
_COMPARED_PAIRS = 100
_WIDEST_CELL = 40

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """The columns and types of a result, and its rows as canonical values."""

    columns: tuple[str, ...]
    types: tuple[Type, ...]
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class _Line:
    mark: str
    row: Row
    note: str = ""


def difference(expected: Rows, result: Result, ordered: bool, file: str, zone: ZoneInfo | None = None) -> list[str]:
    """What is different, as lines; nothing when the rows are those expected. Only the named columns are compared."""
    chosen = [_index(name, result, expected, file) for name in expected.columns]
    if not expected.columns and not expected.cells:
        chosen = list(range(len(result.columns)))
    columns, types = [result.columns[i] for i in chosen], [result.types[i] for i in chosen]
    wanted = [
        tuple(_wanted(*part, At(file, *place), zone) for part in zip(columns, types, cells, strict=True))
        for cells, place in zip(expected.cells, expected.places, strict=True)
    ]
    came = [tuple(row[i] for i in chosen) for row in result.rows]
    if wanted == came or (not ordered and Counter(wanted) == Counter(came)):
        return []
    lines = list(_in_order(wanted, came) if ordered else _as_multisets(wanted, came, columns))
    told = list(_shown(lines, columns, types))
    if ordered and Counter(wanted) == Counter(came):
        told.append("these are the rows expected, but in another order")
    return told


def _index(name: str, result: Result, expected: Rows, file: str) -> int:
    found = [i for i, column in enumerate(result.columns) if column.lower() == name.lower()]
    if len(found) == 1:
        return found[0]
    key = [c.lower() for c in expected.columns].index(name.lower())
    row = next((p for cells, p in zip(expected.cells, expected.places, strict=True) if cells[key] is not None), None)
    place = row or next(iter(expected.places), None)
    message = f'more than one column is called "{name}"' if found else f'there is no column "{name}"'
    hint = did_you_mean(name, result.columns) or f"the columns are {', '.join(result.columns)}"
    raise UnknownTestColumn(message, at=At(file, *place) if place else None, hint=None if found else hint)


def _wanted(name: str, kind: Type, cell: Any, at: At, zone: ZoneInfo | None) -> Any:
    try:
        return value_of(kind, cell, zone)
    except (ValueError, OverflowError) as error:
        raise unfit(name, kind, cell, at, str(error)) from None


def unfit(name: str, kind: Type, cell: Any, at: At, why: str = "") -> UnfitTestValue:
    """The error for a value that cannot be one of its column's type."""
    detail = f": {why}" if why.startswith("no field") else ""
    return UnfitTestValue(f"`{name}`: {shown_cell(cell)} is not a value of type {type_text(kind)}{detail}", at=at)


# --- which rows differ ----------------------------------------------------------------------------------------------


def _as_multisets(wanted: list[Row], came: list[Row], columns: list[str]) -> Iterator[_Line]:
    """Expected rows in their order, each missing one followed by the row that came in its place."""
    left = Counter(came)
    agree = Counter(wanted) & left
    unexpected = list((left - agree).elements())
    for row in wanted:
        if agree[row] > 0:
            agree[row] -= 1
            yield _Line(" ", row)
            continue
        yield _Line("-", row, "expected, missing")
        other = _nearest(row, unexpected)
        if other is not None:
            unexpected.remove(other)
            differing = [c for c, a, b in zip(columns, row, other, strict=True) if a != b]
            yield _Line("+", other, f"unexpected: {', '.join(differing[:3])} {_differ(differing)}")
    yield from (_Line("+", row, "unexpected") for row in unexpected)


def _differ(names: list[str]) -> str:
    return "differs" if len(names) == 1 else "differ" if len(names) <= 3 else f"and {len(names) - 3} more differ"


def _nearest(row: Row, others: list[Row]) -> Row | None:
    """The row that has the most values in common; none when no value is the same."""

    def common(other: Row) -> int:
        return sum(a == b and a is not None for a, b in zip(row, other, strict=True))

    best = max(others[:_COMPARED_PAIRS], key=common, default=None)
    return best if best is not None and common(best) else None


def _in_order(wanted: list[Row], came: list[Row]) -> Iterator[_Line]:
    matcher = difflib.SequenceMatcher(None, wanted, came, autojunk=False)
    for what, i, j, k, m in matcher.get_opcodes():
        if what == "equal":
            yield from (_Line(" ", row) for row in wanted[i:j])
        else:
            yield from (_Line("-", row, "expected, missing") for row in wanted[i:j])
            yield from (_Line("+", row, "unexpected") for row in came[k:m])


# --- how they are shown ---------------------------------------------------------------------------------------------


def _shown(lines: list[_Line], columns: list[str], types: list[Type]) -> Iterator[str]:
    limits = {" ": _SHOWN_AGREEING, "-": _SHOWN_CHANGES, "+": _SHOWN_CHANGES}
    counts: Counter[str] = Counter()
    kept = []
    for line in lines:
        counts[line.mark] += 1
        if counts[line.mark] <= limits[line.mark]:
            kept.append(line)
    table = [columns, *([_cell(k, v) for k, v in zip(types, line.row, strict=True)] for line in kept)]
    widths = [max(len(row[i]) for row in table) for i in range(len(columns))]
    texts = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in table]
    yield f"    {texts[0]}".rstrip()
    for line, text in zip(kept, texts[1:], strict=True):
        yield f"{line.mark}   {text}    {line.note}".rstrip()
    for mark, what in ((" ", "agree"), ("-", "are missing"), ("+", "are unexpected")):
        more = counts[mark] - limits[mark]
        if more > 0:
            yield f"    … and {more} more {'row' if more == 1 else 'rows'} that {what}"


def _cell(kind: Type, value: Any) -> str:
    text = shown_value(kind, value)
    if kind == "string" and value is not None and (text != text.strip() or text in ("", "NULL")):
        text = f"'{text}'"
    if not text.isprintable():
        text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return text if len(text) <= _WIDEST_CELL else text[: _WIDEST_CELL - 1] + "…"
