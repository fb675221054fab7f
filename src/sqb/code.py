"""sqb's own code: where it is, and a stamp that changes with it, for caches that are of use to the same code only."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sqb import __version__

PACKAGE = Path(__file__).resolve().parent


def stamp_code(*parts: str, also: tuple[Path, ...] = ()) -> str:
    """A stamp of modules and packages of sqb (`graph.py`, `sql`) and of other files, from their sizes and times."""
    marks = [__version__]
    for part in parts:
        path = PACKAGE / part
        marks += _iter_marks(*((path,) if part.endswith(".py") else _iter_modules(str(path))))
    marks += _iter_marks(*also)
    return hashlib.sha256("\0".join(marks).encode()).hexdigest()[:16]


def _iter_modules(folder: str) -> Iterator[str]:
    """The Python files of a folder and of those below it, in the order of their names."""
    with suppress(FileNotFoundError):
        for entry in sorted(os.scandir(folder), key=lambda e: e.name):
            if entry.name.endswith(".py"):
                yield entry.path
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _iter_modules(entry.path)


def _iter_marks(*paths: str | Path) -> Iterator[str]:
    for path in paths:
        with suppress(OSError):
            status = os.stat(path)
            yield f"{path}:{status.st_mtime_ns}:{status.st_size}"
