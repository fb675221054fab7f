"""Errors as people read them: the code, the place, the underlined text and the way out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqb.console.paint import Paint
from sqb.errors import SqbError, flatten
from sqb.names import At


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
        if one.hint:
            yield f"{paint('hint', 'cyan')}: {one.hint}"


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
    line = lines[at.line - 1]
    number = str(at.line)
    begin = max(0, at.column - 1)
    length = max(1, min(at.length, len(line) - begin))
    lead = "".join("\t" if c == "\t" else " " for c in line[:begin])
    yield f"{paint(f'  {number} |', 'dim')} {line}"
    yield f"{paint('  ' + ' ' * len(number) + ' |', 'dim')} {lead}{paint('^' * length, 'red')}"


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
