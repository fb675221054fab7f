"""Numbers, times and names as people read them on the pages."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

_SAFE = re.compile(r"[^a-z0-9._-]+")


def make_file_name(name: str) -> str:
    """The name of a file for a node or a run: two names never share one, whatever letters they have."""
    safe = _SAFE.sub("-", name.lower()).strip(".-")[:80]
    if safe and safe == name:
        return f"{safe}.html"
    return f"{safe or 'node'}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}.html"


def format_time(moment: float | None) -> str:
    """A moment in UTC."""
    return "" if moment is None else datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S")


def format_duration(seconds: float | None) -> str:
    """A duration in the largest unit that fits, and the next."""
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    left = round(seconds)
    parts = [(left // 86400, "d"), (left // 3600 % 24, "h"), (left // 60 % 60, "min"), (left % 60, "s")]
    first = next(i for i, (count, _) in enumerate(parts) if count)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2] if count)


def format_count(count: float | None) -> str:
    """A number with separators."""
    return "–" if count is None else f"{count:,}"


def shorten(name: str) -> str:
    """The last part of a name, which is what people call it."""
    return name.rpartition(".")[2] or name


def pluralize(count: int, singular: str, plural: str | None = None) -> str:
    """A number with its noun."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def compute_saved(run: Mapping[str, Any]) -> float | None:
    """The share of the work of a full rebuild that a run saved; what a failed run left undone is not saved."""
    whole = run["rebuild_seconds"] if run["status"] == "ok" else None
    return max(0.0, 1 - run["work_seconds"] / whole) if whole else None
