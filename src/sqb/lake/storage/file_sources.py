"""Files that are read as a source: which there are, and whether they still are what they were. Needs no Spark."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from sqb.identity import digest
from sqb.light_dataclass import dataclass

# The name of a file relative to the listing's folder, its size and when it was modified, in nanoseconds.
Stamp = tuple[str, int, int]
_GLOB = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a source at one moment."""

    source: str
    format: str
    options: Mapping[str, str]
    # The folder below which all of them are: the part of the path before the first wildcard.
    folder: str
    files: tuple[Stamp, ...]

    @property
    def shape(self) -> str:
        """What decides, beside the files, which rows and columns are read from them."""
        return digest("read as", self.format, *(f"{k}={v}" for k, v in sorted(self.options.items())))

    @property
    def version(self) -> str:
        """The same text for the same files, wherever the project's folder is."""
        return digest("files", self.shape, *(f"{name}\t{size}\t{time}" for name, size, time in self.files))

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(os.path.join(self.folder, name) for name, _, _ in self.files)

    @property
    def view(self) -> str:
        """The name under which Spark knows exactly these files."""
        return f"sqb_files_{digest(self.source, self.folder, self.version)[:24]}"

    @property
    def modified_at(self) -> float | None:
        """When the youngest file was modified, in seconds; None without files."""
        return max((time for _, _, time in self.files), default=0) / 1e9 if self.files else None

    def find_changed_files(self) -> tuple[str, ...]:
        """The files that are gone or are not what they were when they were listed."""
        return tuple(name for name, size, time in self.files if _read_stamp(self._get_path(name)) != (size, time))

    def _get_path(self, name: str) -> str:
        return os.path.join(self.folder, name)


def list_files(source: str, root: Path, path: str, format_: str, options: Mapping[str, str]) -> Listing | None:
    """The files that a path or glob names now; None when there is nothing at a path without wildcards."""
    whole = os.path.join(root, "/" + path.removeprefix("file:").lstrip("/") if path.startswith("file:") else path)
    whole = os.path.normpath(whole)
    folder = _get_fixed_part(whole)
    if _GLOB.isdisjoint(path) or os.path.exists(whole):
        if not os.path.exists(whole):
            return None
        folder = whole if os.path.isdir(whole) else os.path.dirname(whole)
        matches = [whole]
    else:
        matches = glob.glob(whole, recursive=True)
    stamps: dict[str, Stamp] = {}
    for match in matches:
        for file in _iter_files(match):
            name = os.path.relpath(file, folder)
            stamp = None if _is_hidden(name) else _read_stamp(file)
            if stamp is not None:
                stamps[name] = (name, *stamp)
    return Listing(source, format_, options, folder, tuple(stamps[name] for name in sorted(stamps)))


def _get_fixed_part(path: str) -> str:
    parts = path.split(os.sep)
    fixed = next((i for i, part in enumerate(parts) if not _GLOB.isdisjoint(part)), len(parts) - 1)
    return os.sep.join(parts[:fixed]) or os.sep


def _iter_files(path: str) -> Iterator[str]:
    """A file, or all files below a folder."""
    if not os.path.isdir(path):
        yield path
        return
    for folder, _, names in os.walk(path):
        yield from (os.path.join(folder, name) for name in names)


def _is_hidden(name: str) -> bool:
    """Whether Spark would leave a file out: what others are still writing, and their notes, are called like this."""
    return any(part.startswith((".", "_")) for part in name.split(os.sep)) or name.endswith("._COPYING_")


def _read_stamp(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_size, status.st_mtime_ns
