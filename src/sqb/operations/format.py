"""Formatting the files of models: which there are, how each is to look, and writing those that differ."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqb.errors.base import Errors
from sqb.errors.call import BadSelector
from sqb.names import At, suggest_nearest
from sqb.project import files
from sqb.project.config.config import read_settings_file
from sqb.project.config.format_section import read_format
from sqb.project.config.located import Section
from sqb.project.models.format_model import format_model
from sqb.sql.formatting.query import format_query
from sqb.sql.formatting.settings import FormatSettings


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """Which files are formatted: models by their names or files and folders; all where none is named."""

    names: Sequence[str] = ()
    # Write nothing.
    check: bool = False


@dataclass(frozen=True, slots=True)
class FormattedFile:
    """A file that is not in its usual form."""

    file: str
    before: str
    after: str

    def list_difference(self) -> list[str]:
        """The lines of a unified diff."""
        old, new = self.before.splitlines(), self.after.splitlines()
        return list(difflib.unified_diff(old, new, self.file, self.file, lineterm=""))


@dataclass(frozen=True, slots=True)
class Formatting:
    """What was looked at, and the files that differ."""

    looked_at: int
    changed: tuple[FormattedFile, ...]
    is_written: bool

    def to_data(self) -> dict[str, Any]:
        """What `sqb format --json` prints."""
        return {"files": self.looked_at, "changed": [c.file for c in self.changed], "written": self.is_written}


def format_project(start: Path, options: FormatOptions) -> Formatting:
    """Format the files of a project's models; writes those that differ, unless only asked."""
    root, errors = files.find_root(start), Errors()
    settings = load_format_settings(root, errors)
    errors.raise_any()
    paths = select_paths([p for p in files.read_stamps(root) if _is_formatted(p)], options.names)
    changed = []
    for path in paths:
        text = files.read_text(root, path, errors)
        after = format_file(text, path, settings) if text is not None else None
        if text is not None and after is not None and after != text:
            changed.append(FormattedFile(path, text, after))
    errors.raise_any()
    if not options.check:
        for one in changed:
            _write(root / one.file, one.after)
    return Formatting(len(paths), tuple(changed), not options.check)


def format_file(text: str, path: str, settings: FormatSettings) -> str:
    """A SQL file of a project in its usual form."""
    return format_model(text, path, settings) if path.startswith("models/") else format_query(text, settings)


def load_format_settings(root: Path, errors: Errors) -> FormatSettings:
    """The settings under [format] of a project."""
    entries = read_settings_file(root, errors) or {}
    return read_format(Section(entries, "the project's settings", At(files.PROJECT_FILE, 1, 1), errors))


def _is_formatted(path: str) -> bool:
    return path.startswith("models/") and path.endswith(".sql")


def select_paths(paths: Iterable[str], names: Sequence[str]) -> list[str]:
    """The files that names mean: a model by its name with or without its folder, a file, or a folder."""
    listed = list(paths)
    if not names:
        return listed
    chosen: dict[str, None] = {}
    for name in names:
        written = name.replace("\\", "/").removeprefix("./").rstrip("/")
        matches = [p for p in listed if _is_meant(p, written)]
        if not matches:
            hint = suggest_nearest(name, [Path(p).stem for p in listed])
            raise BadSelector(f'no model is called "{name}"', hint=hint or "write a model's name, its file or a folder")
        chosen |= dict.fromkeys(matches)
    return list(chosen)


def _is_meant(path: str, written: str) -> bool:
    whole = path.removeprefix("models/").removesuffix(".sql")
    folder, _, name = whole.rpartition("/")
    named = (path, whole, name, f"{folder.replace('/', '_') or 'default'}.{name}")
    return written in named or path.startswith(f"{written}/") or path.endswith(f"/{written}")


def _write(path: Path, text: str) -> None:
    """Write a file with the line ends and the mark that it had."""
    raw = path.read_bytes()
    ends = "\r\n" if b"\r\n" in raw else "\n"
    mark = b"\xef\xbb\xbf" if raw.startswith(b"\xef\xbb\xbf") else b""
    path.write_bytes(mark + text.replace("\n", ends).encode())
