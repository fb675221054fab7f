"""The first rows of tables, for those who ask for them. They are read without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqb.compile.model import Project
from sqb.lake.port import Lake

_WIDEST = 200


def add_samples(nodes: Mapping[str, dict[str, Any]], project: Project, lake: Lake, limit: int) -> None:
    """Add the first rows to every node and source that has a table."""
    pointers = {str(p.relation).lower(): p for p in lake.list_pointers().values() if not p.is_view}
    relations = {n.name: n.relation for n in project} | {e.name: e.relation for e in project.externals.values()}
    for name, relation in relations.items():
        pointer = pointers.get(str(relation).lower())
        if pointer is None or name not in nodes:
            continue
        columns, rows = lake.read_first_rows(pointer.relation, limit)
        nodes[name]["sample"] = {"columns": list(columns), "rows": [[_format_value(v) for v in row] for row in rows]}


def _format_value(value: Any) -> str | None:
    """A value as text; None for NULL."""
    if value is None:
        return None
    text = f"0x{value.hex()}" if isinstance(value, bytes) else str(value)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
