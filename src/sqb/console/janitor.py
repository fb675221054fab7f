"""What the janitor did, as lines of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqb.console.paint import Paint
from sqb.names import human_bytes

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


def swept_line(swept: Any, dry_run: bool, paint: Paint) -> str:
    """One thing that went, would go, or had to stay."""
    if swept.what == "kept":
        return f"{paint('kept    ', 'yellow')}  {swept.name}: {swept.why}"
    if swept.what == "clone":
        done = paint("to copy " if dry_run else "copied  ", "dim" if dry_run else "green")
        return f"{done}  {amounts(swept)} to {swept.name} ({human_bytes(swept.bytes)}): {swept.why}"
    done = paint("would go" if dry_run else "removed ", "dim" if dry_run else "green")
    size = "" if swept.what in ("environment", "checkpoint") else f" ({human_bytes(swept.bytes)})"
    return f"{done}  {amounts(swept)} of {swept.name}{size}: {swept.why}"


def summary_line(swept: Sequence[Any], dry_run: bool) -> str:
    """The last line of a round."""
    gone = [s for s in swept if s.what not in ("kept", "clone")]
    copied = [s for s in swept if s.what == "clone"]
    own = f"; {_count(len(copied), 'clone')} {'would get' if dry_run else 'got'} files of its own" if copied else ""
    own = own.replace("its own", "their own") if len(copied) > 1 else own
    if not gone:
        return f"Nothing to remove{own}."
    total = {key: sum(getattr(s, key) for s in gone) for key in _WORDS}
    parts = ", ".join(_count(total[key], word) for key, word in _WORDS.items() if total[key])
    verb = "Would free" if dry_run else "Freed"
    return f"{verb} {human_bytes(sum(s.bytes for s in gone))}: {parts}{own}"


def amounts(swept: Any) -> str:
    """How much of something there was."""
    counted = [_count(getattr(swept, key), word) for key, word in _WORDS.items() if getattr(swept, key)]
    return ", ".join(counted) or "nothing"


def _count(number: int, word: str) -> str:
    return f"{number:,} {word if number == 1 else _PLURALS.get(word, word + 's')}"
