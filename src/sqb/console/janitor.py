"""What the janitor did, as lines of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqb.console.style import Paint
from sqb.names import format_bytes

_WORDS = {
    "environments": "environment",
    "views": "view",
    "checkpoints": "checkpoint",
    "versions": "version",
    "tables": "stage",
    "snapshots": "snapshot",
    "tags": "tag",
    "rows": "row of history",
    "files": "file",
}
_PLURALS = {"row of history": "rows of history"}


def format_entry(entry: Any, dry_run: bool, paint: Paint) -> str:
    """One thing that went, would go, or had to stay."""
    if entry.what == "kept":
        return f"{paint('kept    ', 'yellow')}  {entry.name}: {entry.why}"
    if entry.what == "clone":
        verb = paint("to copy " if dry_run else "copied  ", "dim" if dry_run else "green")
        return f"{verb}  {format_amounts(entry)} to {entry.name} ({format_bytes(entry.bytes)}): {entry.why}"
    verb = paint("would go" if dry_run else "removed ", "dim" if dry_run else "green")
    size = "" if entry.what in ("environment", "checkpoint") else f" ({format_bytes(entry.bytes)})"
    return f"{verb}  {format_amounts(entry)} of {entry.name}{size}: {entry.why}"


def format_summary(entries: Sequence[Any], dry_run: bool) -> str:
    """The last line of a round."""
    removed = [s for s in entries if s.what not in ("kept", "clone")]
    copied = [s for s in entries if s.what == "clone"]
    clones = (
        f"; {_format_count(len(copied), 'clone')} {'would get' if dry_run else 'got'} files of its own"
        if copied
        else ""
    )
    clones = clones.replace("its own", "their own") if len(copied) > 1 else clones
    if not removed:
        return f"Nothing to remove{clones}."
    total = {key: sum(getattr(s, key) for s in removed) for key in _WORDS}
    parts = ", ".join(_format_count(total[key], word) for key, word in _WORDS.items() if total[key])
    verb = "Would free" if dry_run else "Freed"
    return f"{verb} {format_bytes(sum(s.bytes for s in removed))}: {parts}{clones}"


def format_amounts(entry: Any) -> str:
    """How much of something there was."""
    counts = [_format_count(getattr(entry, key), word) for key, word in _WORDS.items() if getattr(entry, key)]
    return ", ".join(counts) or "nothing"


def _format_count(number: int, word: str) -> str:
    return f"{number:,} {word if number == 1 else _PLURALS.get(word, word + 's')}"
