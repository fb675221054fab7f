"""Cache files: a stamp of the code that wrote them, lines of text, and a last line that shows that all is there.

Caches are always safe to delete. A file that is missing, damaged or of other code is as good as none, and a cache that
cannot be written does not fail a command.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from sqb import __version__
from sqb.cache import codec

T = TypeVar("T")
# A file without its last line was cut off.
_END = "end"
# Where sqb's own code is.
PACKAGE = Path(__file__).resolve().parents[1]


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


def read_lines(path: Path, stamp: str | None) -> list[str] | None:
    """The lines that were written under the same stamp (None: under any); None when there are none."""
    try:
        first, *lines, last = path.read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError):
        return None
    return lines if last == _END and stamp in (first, None) else None


def write_lines(path: Path, stamp: str, lines: Iterable[str]) -> None:
    """Write lines, which have no line breaks, so that a reader sees all of the old file or all of the new."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
        try:
            temporary.write_text("\n".join((stamp, *lines, _END)), encoding="utf-8")
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise


def read_value(path: Path, stamp: str, kind: type[T]) -> T | None:
    """The one value that a file holds, written under the same stamp; None when there is none."""
    lines = read_lines(path, stamp)
    try:
        return codec.decode(kind, lines[0]) if lines else None
    except codec.Undecodable:
        return None


def write_value(path: Path, stamp: str, value: T, kind: type[T]) -> None:
    """Write a file that holds one value."""
    write_lines(path, stamp, (codec.encode(value, kind),))


def read_entries(path: Path, stamp: str) -> dict[str, str]:
    """The texts of a file by their keys, as they were written under the same stamp."""
    return {key: text for key, _, text in (line.partition("\t") for line in read_lines(path, stamp) or ())}


def write_entries(path: Path, stamp: str, entries: Mapping[str, str]) -> None:
    """Write a file of texts by their keys; neither has line breaks, and keys have no tabs."""
    write_lines(path, stamp, (f"{key}\t{text}" for key, text in entries.items()))


class EntryFile:
    """A cache file of keys with the text that is kept for each; threads may share it."""

    def __init__(self, path: Path, stamp: str) -> None:
        self._path, self._stamp = path, stamp
        self._entries: dict[str, str] | None = None
        self._changed = False
        self._lock = threading.Lock()

    def get(self, keys: Iterable[str]) -> dict[str, str]:
        """The texts of those keys that are known."""
        with self._lock:
            entries = self._load()
            return {key: text for key in keys if (text := entries.get(key)) is not None}

    def put(self, texts: Mapping[str, str], live: Container[str] | None = None) -> None:
        """Add texts, and forget those of keys that are not in `live`."""
        with self._lock:
            entries = self._load()
            stale = [key for key in entries if key not in live] if live is not None else []
            for key in stale:
                del entries[key]
            entries.update((key, text) for key, text in texts.items() if "\t" not in key and "\n" not in key)
            self._changed = True

    def clear(self) -> None:
        """Forget everything, as one text proved to be damaged."""
        with self._lock:
            self._entries = {}

    def save(self) -> None:
        """Write what changed since the last time."""
        with self._lock:
            if not self._changed or self._entries is None:
                return
            write_entries(self._path, self._stamp, self._entries)
            self._changed = False

    def _load(self) -> dict[str, str]:
        if self._entries is None:
            self._entries = read_entries(self._path, self._stamp)
        return self._entries
