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

from sqb.errors.build import UnfitTestValue, UnknownTestColumn
from sqb.names import At, suggest_nearest
from sqb.project.unit_tests import Rows
from sqb.types.format import format_sql_type
from sqb.types.model import STRING, Type
from sqb.types.values import convert_cell, describe_cell, format_value

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


def format_difference(
    expected: Rows, result: Result, ordered: bool, file: str, zone: ZoneInfo | None = None
) -> list[str]:
    """What is different, as lines; nothing when the rows are those expected. Only the named columns are compared."""
    chosen = [_find_column(name, result, expected, file) for name in expected.columns]
    if not expected.columns and not expected.cells:
        chosen = list(range(len(result.columns)))
    columns, types = [result.columns[i] for i in chosen], [result.types[i] for i in chosen]
    expected_rows = [
        tuple(_parse_expected(*part, At(file, *place), zone) for part in zip(columns, types, cells, strict=True))
        for cells, place in zip(expected.cells, expected.places, strict=True)
    ]
    actual_rows = [tuple(row[i] for i in chosen) for row in result.rows]
    if expected_rows == actual_rows or (not ordered and Counter(expected_rows) == Counter(actual_rows)):
        return []
    lines = list(
        _diff_ordered(expected_rows, actual_rows) if ordered else _diff_multisets(expected_rows, actual_rows, columns)
    )
    formatted = list(_format_lines(lines, columns, types))
    if ordered and Counter(expected_rows) == Counter(actual_rows):
        formatted.append("these are the rows expected, but in another order")
    return formatted


def _find_column(name: str, result: Result, expected: Rows, file: str) -> int:
    indexes = [i for i, column in enumerate(result.columns) if column.lower() == name.lower()]
    if len(indexes) == 1:
        return indexes[0]
    key = [c.lower() for c in expected.columns].index(name.lower())
    row = next((p for cells, p in zip(expected.cells, expected.places, strict=True) if cells[key] is not None), None)
    place = row or next(iter(expected.places), None)
    message = f'more than one column is called "{name}"' if indexes else f'there is no column "{name}"'
    hint = suggest_nearest(name, result.columns) or f"the columns are {', '.join(result.columns)}"
    raise UnknownTestColumn(message, at=At(file, *place) if place else None, hint=None if indexes else hint)


def _parse_expected(name: str, kind: Type, cell: Any, at: At, zone: ZoneInfo | None) -> Any:
    try:
        return convert_cell(kind, cell, zone)
    except (ValueError, OverflowError) as error:
        raise build_unfit_error(name, kind, cell, at, str(error)) from None


def build_unfit_error(name: str, kind: Type, cell: Any, at: At, why: str = "") -> UnfitTestValue:
    """The error for a value that cannot be one of its column's type."""
    detail = f": {why}" if why.startswith("no field") else ""
    return UnfitTestValue(
        f"`{name}`: {describe_cell(cell)} is not a value of type {format_sql_type(kind)}{detail}", at=at
    )


# --- which rows differ ----------------------------------------------------------------------------------------------


def _diff_multisets(expected_rows: list[Row], actual_rows: list[Row], columns: list[str]) -> Iterator[_Line]:
    """Expected rows in their order, each missing one followed by the row that came in its place."""
    remaining = Counter(actual_rows)
    agree = Counter(expected_rows) & remaining
    unexpected = list((remaining - agree).elements())
    for row in expected_rows:
        if agree[row] > 0:
            agree[row] -= 1
            yield _Line(" ", row)
            continue
        yield _Line("-", row, "expected, missing")
        other = _find_nearest(row, unexpected)
        if other is not None:
            unexpected.remove(other)
            differing = [c for c, a, b in zip(columns, row, other, strict=True) if a != b]
            yield _Line("+", other, f"unexpected: {', '.join(differing[:3])} {_format_differing(differing)}")
    yield from (_Line("+", row, "unexpected") for row in unexpected)


def _format_differing(names: list[str]) -> str:
    return "differs" if len(names) == 1 else "differ" if len(names) <= 3 else f"and {len(names) - 3} more differ"


def _find_nearest(row: Row, others: list[Row]) -> Row | None:
    """The row that has the most values in common; none when no value is the same."""

    def common(other: Row) -> int:
        return sum(a == b and a is not None for a, b in zip(row, other, strict=True))

    best = max(others[:_COMPARED_PAIRS], key=common, default=None)
    return best if best is not None and common(best) else None


def _diff_ordered(expected_rows: list[Row], actual_rows: list[Row]) -> Iterator[_Line]:
    matcher = difflib.SequenceMatcher(None, expected_rows, actual_rows, autojunk=False)
    for what, i, j, k, m in matcher.get_opcodes():
        if what == "equal":
            yield from (_Line(" ", row) for row in expected_rows[i:j])
        else:
            yield from (_Line("-", row, "expected, missing") for row in expected_rows[i:j])
            yield from (_Line("+", row, "unexpected") for row in actual_rows[k:m])


# --- how they are shown ---------------------------------------------------------------------------------------------


def _format_lines(lines: list[_Line], columns: list[str], types: list[Type]) -> Iterator[str]:
    limits = {" ": _SHOWN_AGREEING, "-": _SHOWN_CHANGES, "+": _SHOWN_CHANGES}
    counts: Counter[str] = Counter()
    shown_lines = []
    for line in lines:
        counts[line.mark] += 1
        if counts[line.mark] <= limits[line.mark]:
            shown_lines.append(line)
    table = [columns, *([_format_cell(k, v) for k, v in zip(types, line.row, strict=True)] for line in shown_lines)]
    widths = [max(len(row[i]) for row in table) for i in range(len(columns))]
    texts = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in table]
    yield f"    {texts[0]}".rstrip()
    for line, text in zip(shown_lines, texts[1:], strict=True):
        yield f"{line.mark}   {text}    {line.note}".rstrip()
    for mark, what in ((" ", "agree"), ("-", "are missing"), ("+", "are unexpected")):
        more = counts[mark] - limits[mark]
        if more > 0:
            yield f"    … and {more} more {'row' if more == 1 else 'rows'} that {what}"


def _format_cell(kind: Type, value: Any) -> str:
    text = format_value(kind, value)
    if kind == STRING and value is not None and (text != text.strip() or text in ("", "NULL")):
        text = f"'{text}'"
    if not text.isprintable():
        text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return text if len(text) <= _WIDEST_CELL else text[: _WIDEST_CELL - 1] + "…"
