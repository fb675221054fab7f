"""Places in files, relations, quoting and durations: the small values that every other module uses.

Nothing here knows about projects, catalogs or Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqb.light_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class At:
    """A place in a file; line and column count from 1, `length` is how much to underline.

    Without a file it is a place in a query that was given by itself.
    """

    file: str
    line: int = 0
    column: int = 0
    length: int = 1

    def __str__(self) -> str:
        if not self.file and self.line:
            return f"line {self.line}, column {self.column}"
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True, slots=True, order=True)
class Relation:
    """A table or view in the catalog: a schema (namespace) and a name."""

    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    @classmethod
    def parse(cls, text: str) -> Relation:
        schema, _, name = text.rpartition(".")
        return cls(schema, name)


def quote(*parts: str) -> str:
    """The identifier parts, joined and quoted for Spark SQL."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def locate_offset(text: str, offset: int, file: str, length: int = 1) -> At:
    """The place of a character offset in a text."""
    line = text.count("\n", 0, offset) + 1
    column = offset - (text.rfind("\n", 0, offset) + 1) + 1
    return At(file, line, column, max(1, length))


def find_nearest(name: str, candidates: Iterable[str], limit: int = 3) -> tuple[str, ...]:
    """The candidates most like `name`, best first, for a did-you-mean."""
    import difflib  # only errors ask for it

    by_folded = {c.lower(): c for c in candidates}
    matches = difflib.get_close_matches(name.lower(), by_folded, n=limit, cutoff=0.6)
    return tuple(by_folded[f] for f in matches)


def suggest_nearest(name: str, candidates: Iterable[str]) -> str | None:
    """A hint that names the nearest candidates, or None when none is near."""
    close = find_nearest(name, candidates)
    return f"did you mean {' or '.join(repr(c) for c in close)}?" if close else None


DURATION_UNITS = ("ms", "s", "m", "h", "d", "w")
_DURATION = re.compile(rf"(\d+)\s*({'|'.join(DURATION_UNITS)})")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def parse_duration(text: str) -> float | None:
    """The seconds in a duration such as `90m`, `24h` or `1d12h`; None when it is not one."""
    compact = text.replace(" ", "")
    parts = _DURATION.findall(compact)
    if not parts or "".join(n + u for n, u in parts) != compact:
        return None
    return sum(int(n) * _SECONDS[u] for n, u in parts)


def format_seconds(seconds: float) -> str:
    """A run time as people read it: `200ms`, `1.6s`, `2m 5s`."""
    if round(seconds * 1000) < 1000:
        return f"{round(seconds * 1000)}ms"
    if round(seconds, 1) < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes}m"


def format_bytes(count: int) -> str:
    """A size as people read it: `12 bytes`, `3.4 kB`, `1.2 GB`."""
    if count < 1000:
        return f"{count} {'byte' if count == 1 else 'bytes'}"
    size, units = count / 1000, ["kB", "MB", "GB", "TB", "PB"]
    while round(size, 1) >= 1000 and len(units) > 1:
        size, units = size / 1000, units[1:]
    return f"{size:.1f} {units[0]}"


_AGES = ((86400.0, "day"), (3600.0, "hour"), (60.0, "minute"), (1.0, "second"))


def format_age(seconds: float) -> str:
    """An age in words, by its largest unit: `3 days`, `1 hour`, `12 seconds`."""
    size, word = next(((s, w) for s, w in _AGES if seconds >= s), _AGES[-1])
    count = int(seconds // size)
    return f"{count} {word}{'' if count == 1 else 's'}"
