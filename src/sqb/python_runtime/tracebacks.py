"""Where in the project's files something happened: from tracebacks, functions and dumps of a stuck process."""

from __future__ import annotations

import linecache
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from sqb.names import At

_DUMPED = re.compile(r'^  File "(.+)", line (\d+) in ', re.MULTILINE)


def get_project_file(root: Path, filename: str) -> str | None:
    """The name of a file within the project; None for files that are not the project's own."""
    path = Path(filename)
    if not path.is_relative_to(root):
        return None
    inside = path.relative_to(root)
    if any(part.startswith(".") or part == "site-packages" for part in inside.parts):
        return None
    return inside.as_posix()


def find_error_place(error: BaseException, root: Path) -> At | None:
    """The innermost place in the project's own files that an exception went through."""
    if isinstance(error, SyntaxError) and error.filename and (file := get_project_file(root, error.filename)):
        return At(file, error.lineno or 1, error.offset or 1)
    return find_traceback_place(error.__traceback__, root)


def find_traceback_place(trace: TracebackType | None, root: Path) -> At | None:
    """The innermost place of a traceback in the project's own files."""
    for frame in reversed(traceback.extract_tb(trace)):
        file = get_project_file(root, frame.filename)
        if file is not None and frame.lineno:
            return _build_place(file, frame)
    return None


def _build_place(file: str, frame: traceback.FrameSummary) -> At:
    line = linecache.getline(frame.filename, frame.lineno or 1).rstrip("\n")
    encoded = line.encode()
    # Python counts bytes, people count characters.
    begin = len(encoded[: frame.colno or 0].decode(errors="replace"))
    end = len(line)
    if frame.end_lineno == frame.lineno and frame.end_colno:
        end = len(encoded[: frame.end_colno].decode(errors="replace"))
    return At(file, frame.lineno or 1, begin + 1, max(1, end - begin))


def find_function_place(function: Callable[..., Any], root: Path) -> At | None:
    """The name of a function where it is defined."""
    code = getattr(function, "__code__", None)
    file = get_project_file(root, code.co_filename) if code is not None else None
    if code is None or file is None:
        return None
    # What a function begins with is its first decorator.
    for number, line in enumerate(linecache.getlines(code.co_filename)[code.co_firstlineno - 1 :], code.co_firstlineno):
        if match := re.match(rf"\s*(?:async\s+)?def\s+({re.escape(code.co_name)})\b", line):
            return At(file, number, match.start(1) + 1, len(code.co_name))
    return At(file, code.co_firstlineno)


def find_dump_place(text: str, root: Path) -> At | None:
    """The innermost place in the project's own files of a stack that `faulthandler` wrote, the whole line."""
    for filename, number in _DUMPED.findall(text):
        file = get_project_file(root, filename)
        if file is not None:
            line = linecache.getline(filename, int(number)).rstrip()
            begin = len(line) - len(line.lstrip())
            return At(file, int(number), begin + 1, max(1, len(line) - begin))
    return None
