"""What is different between two lists of columns, as values; Iceberg's types as people write them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqb.build.render import spark_type
from sqb.lake.port import ColumnState


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """A column that was added (no type before), removed (none now) or that has another type."""

    name: str
    before: str | None
    now: str | None

    def __str__(self) -> str:
        if self.before is None:
            return f"{self.name} {self.now} added"
        if self.now is None:
            return f"{self.name} {self.before} removed"
        return f"{self.name} {self.before} → {self.now}"

    def to_data(self) -> dict[str, Any]:
        return {"name": self.name, "from": self.before, "to": self.now}


def column_changes(before: Iterable[tuple[str, str]], now: Iterable[tuple[str, str]]) -> tuple[ColumnChange, ...]:
    """The columns (name and type) that differ: those removed or retyped in their old order, then those added."""
    old = {name.lower(): (name, kind) for name, kind in before}
    new = {name.lower(): (name, kind) for name, kind in now}
    gone_or_other = [
        ColumnChange(name, kind, new[key][1] if key in new else None)
        for key, (name, kind) in old.items()
        if key not in new or new[key][1] != kind
    ]
    added = [ColumnChange(name, None, kind) for key, (name, kind) in new.items() if key not in old]
    return (*gone_or_other, *added)


def typed(columns: Iterable[ColumnState]) -> list[tuple[str, str]]:
    """The columns of a table with their types as Spark writes them."""
    return [(c.name, spark_type(json.loads(c.type)).lower()) for c in columns]
