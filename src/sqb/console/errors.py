"""Errors as people read them: the code, the place, the underlined text and the way out."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqb.console.paint import Paint, text_width
from sqb.errors import SqbError, flatten
from sqb.names import At
from sqb.project.masking import mask_line
from sqb.project.secrets import hide_known

_LONGEST = 160


def error_lines(error: SqbError, root: Path | None, paint: Paint) -> Iterator[str]:
    """The lines that explain an error, or each of several."""
    for index, one in enumerate(flatten(error)):
        if index:
            yield ""
        place = f"{one.at}: " if one.at else ""
        first, *more = one.message.splitlines() or [""]
        yield f"{paint(f'error[{one.code}]', 'red', 'bold')}: {place}{paint(first, 'bold')}"
        yield from (f"  {line}" for line in more)
        if one.at is not None:
            yield from _excerpt(one.at, root, paint)
        yield from (f"  {''.join(map(_shown, line))}" for line in one.evidence)
        if one.hint:
            yield f"{paint('hint', 'cyan')}: {one.hint}"


def print_error(error: SqbError, root: Path | None) -> None:
    """Explain an error, or each of several, on standard error."""
    for line in error_lines(error, root, Paint(sys.stderr)):
        print(line, file=sys.stderr)


def print_traceback(error: BaseException) -> None:
    """Show where an error comes from, on standard error; drivers and servers quote what they were given."""
    print(hide_known("".join(traceback.format_exception(error))), end="", file=sys.stderr)


def print_log_place(log: Path) -> None:
    """Say where Spark's log of this run is."""
    print(f"\nSpark's log of this run: {shown_path(log, Path.cwd())}", file=sys.stderr)


def _excerpt(at: At, root: Path | None, paint: Paint) -> Iterator[str]:
    if not at.line or root is None:
        return
    try:
        text = (root / at.file).read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        return
    lines = text.replace("\r\n", "\n").split("\n")
    if at.line > len(lines):
        return
    number = str(at.line)
    whole = mask_line(lines, at.line, at.file).rstrip("\r")
    line, begin, length = _window(whole, max(0, at.column - 1), max(1, at.length))
    lead = "".join("\t" if c == "\t" else " " * text_width(c) for c in line[:begin])
    marks = "^" * max(1, text_width(line[begin : begin + length]))
    yield f"{paint(f'  {number} |', 'dim')} {''.join(_shown(c) for c in line)}"
    yield f"{paint('  ' + ' ' * len(number) + ' |', 'dim')} {lead}{paint(marks, 'red')}"


def _window(line: str, begin: int, length: int) -> tuple[str, int, int]:
    """As much of a line as people can read, around what is to be underlined."""
    length = max(1, min(length, len(line) - begin))
    if len(line) <= _LONGEST:
        return line, begin, length
    length = min(length, _LONGEST // 2)
    start = max(0, min(begin - _LONGEST // 4, len(line) - _LONGEST))
    shown = line[start : start + _LONGEST]
    before, after = "…" if start else "", "…" if start + _LONGEST < len(line) else ""
    return before + shown + after, begin - start + len(before), length


def _shown(character: str) -> str:
    return character if character == "\t" or character.isprintable() else "�"


def error_data(error: SqbError) -> list[dict[str, Any]]:
    """Errors as JSON values."""
    return [
        {
            "code": one.code,
            "file": one.at.file if one.at else None,
            "line": one.at.line or None if one.at else None,
            "column": one.at.column or None if one.at else None,
            "message": one.message,
            "hint": one.hint,
        }
        for one in flatten(error)
    ]


def shown_path(path: Path, start: Path) -> str:
    """A path as short as it can be said from `start`."""
    return os.path.relpath(path, start)
