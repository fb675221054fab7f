"""The written forms of `partitioned_by` and `sorted_by`, as values."""

from __future__ import annotations

import re

from sqb.light_dataclass import dataclass

_NAME = r"(?:`(?:[^`]|``)+`|[A-Za-z_][A-Za-z0-9_]*)"
_PLAIN = re.compile(rf"^({_NAME})$")
_TIMED = re.compile(rf"^(years?|months?|days?|date|hours?|date_hour)\s*\(\s*({_NAME})\s*\)$", re.IGNORECASE)
_SIZED = re.compile(rf"^(bucket|truncate)\s*\(\s*(\d+)\s*,\s*({_NAME})\s*\)$", re.IGNORECASE)
_TIMED_OTHER = {"date": "day", "date_hour": "hour"}
_ORDER = re.compile(rf"^({_NAME})(?:\s+(ASC|DESC))?(?:\s+NULLS\s+(FIRST|LAST))?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One part of a partition: identity, year, month, day, hour, bucket[n] or truncate[n] of a column."""

    transform: str
    column: str


@dataclass(frozen=True, slots=True)
class SortField:
    """One column of a sort order."""

    column: str
    descending: bool = False
    nulls_first: bool = True


def parse_partition(text: str) -> PartitionField | None:
    """The partition field in a text such as `days(ts)`, `bucket(16, id)` or `region`; None when it is not one."""
    text = text.strip()
    if match := _PLAIN.match(text):
        return PartitionField("identity", _unquote(match[1]))
    if match := _TIMED.match(text):
        word = match[1].lower()
        return PartitionField(_TIMED_OTHER.get(word, word.removesuffix("s")), _unquote(match[2]))
    if match := _SIZED.match(text):
        return PartitionField(f"{match[1].lower()}[{int(match[2])}]", _unquote(match[3]))
    return None


def parse_sort(text: str) -> SortField | None:
    """The sort field in a text such as `id` or `ts DESC NULLS LAST`; None when it is not one."""
    match = _ORDER.match(text.strip())
    if not match:
        return None
    descending = (match[2] or "ASC").upper() == "DESC"
    nulls_first = (match[3].upper() == "FIRST") if match[3] else not descending
    return SortField(_unquote(match[1]), descending, nulls_first)


def _unquote(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
