"""Errors as people read them: the code, the place, the underlined text and the way out."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from sqb.console.style import Paint, get_terminal_width, measure_text, wrap_line
from sqb.errors.base import SqbError, flatten
from sqb.errors.read_page import find_page
from sqb.names import At
from sqb.project.config.masking import mask_line
from sqb.project.config.secrets import hide_known

_MAX_LENGTH = 160
# A line of a file, and the one below it that underlines a part of it.
_EXCERPT = re.compile(r"(\x1b\[2m)? +\d* \|")


def format_error(error: SqbError, root: Path | None, paint: Paint) -> Iterator[str]:
    """The lines that explain an error, or each of several."""
    for index, failure in enumerate(flatten(error)):
        if index:
            yield ""
        # The line of a query that was given by itself is shown below.
        place = f"{failure.at}: " if failure.at and (failure.at.file or not failure.evidence) else ""
        first, *more = failure.message.splitlines() or [""]
        yield f"{_format_code(failure.code, paint)}: {place}{paint(first, 'bold')}"
        yield from (f"  {line}" for line in more)
        if failure.at is not None and failure.at.file:
            yield from format_excerpt(failure.at, root, paint)
        yield from (f"  {''.join(map(_make_printable, line))}" for line in failure.evidence)
        if failure.hint:
            yield f"{paint('hint', 'cyan')}: {failure.hint}"


def _format_code(code: str, paint: Paint) -> str:
    """An error's code; on a terminal it leads to the page about it, which came with the package."""
    text = paint(f"error[{code}]", "red", "bold")
    page = find_page(code) if paint.enabled else None
    return f"\x1b]8;;{page.resolve().as_uri()}\x1b\\{text}\x1b]8;;\x1b\\" if page is not None else text


def print_error(error: SqbError, root: Path | None) -> None:
    """Explain an error, or each of several, on standard error; on a terminal also say how to read more."""
    paint = Paint(sys.stderr)
    print_error_lines(format_error(error, root, paint))
    if paint.enabled:
        codes = list(dict.fromkeys(failure.code for failure in flatten(error)))
        print(paint(f"more: sqb explain {codes[0]}", "dim"), file=sys.stderr)


def print_error_lines(lines: Iterable[str]) -> None:
    """Print what explains errors; at a terminal all but lines of files, which stay as they are, are broken to fit."""
    width = get_terminal_width(sys.stderr)
    for line in lines:
        for part in (line,) if _EXCERPT.match(line) else wrap_line(line, width):
            print(part, file=sys.stderr)


def print_traceback(error: BaseException) -> None:
    """Show where an error comes from, on standard error; drivers and servers quote what they were given."""
    print(hide_known("".join(traceback.format_exception(error))), end="", file=sys.stderr)


def print_log_path(log: Path) -> None:
    """Say where Spark's log of this run is."""
    print(f"\nSpark's log of this run: {format_path(log, Path.cwd())}", file=sys.stderr)


def format_excerpt(at: At, root: Path | None, paint: Paint) -> Iterator[str]:
    """The line of a place, underlined."""
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
    line, begin, length = _cut_line(whole, max(0, at.column - 1), max(1, at.length))
    lead = "".join("\t" if c == "\t" else " " * measure_text(c) for c in line[:begin])
    marks = "^" * max(1, measure_text(line[begin : begin + length]))
    yield f"{paint(f'  {number} |', 'dim')} {''.join(_make_printable(c) for c in line)}"
    yield f"{paint('  ' + ' ' * len(number) + ' |', 'dim')} {lead}{paint(marks, 'red')}"


def _cut_line(line: str, begin: int, length: int) -> tuple[str, int, int]:
    """As much of a line as people can read, around what is to be underlined."""
    length = max(1, min(length, len(line) - begin))
    if len(line) <= _MAX_LENGTH:
        return line, begin, length
    length = min(length, _MAX_LENGTH // 2)
    start = max(0, min(begin - _MAX_LENGTH // 4, len(line) - _MAX_LENGTH))
    visible = line[start : start + _MAX_LENGTH]
    before, after = "…" if start else "", "…" if start + _MAX_LENGTH < len(line) else ""
    return before + visible + after, begin - start + len(before), length


def _make_printable(character: str) -> str:
    return character if character == "\t" or character.isprintable() else "�"


def encode_errors(error: SqbError) -> list[dict[str, Any]]:
    """Errors as JSON values."""
    return [failure.to_data() for failure in flatten(error)]


def format_path(path: Path, start: Path) -> str:
    """A path as short as it can be written from `start`."""
    return os.path.relpath(path, start)
