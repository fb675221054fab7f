"""`sqb watch`: what was saved, and how the rows of tables differ from before, as lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqb.console.style import cut_text
from sqb.operations.watch import ChangedTable

_FILES = 3
_EXAMPLES = 3
# Where there is no terminal.
_WIDTH = 100


def format_save(files: Sequence[str], now: datetime) -> str:
    """When a round began, and what for."""
    few = ", ".join(files[:_FILES]) + (f" and {len(files) - _FILES} more" if len(files) > _FILES else "")
    return f"--- {now:%H:%M:%S} {few or 'first look'}"


def format_new_table(table: ChangedTable) -> str:
    """A table that was not there before."""
    return f"{table.name}: new, {_count(table.now.rows)}"


def format_unknown(table: ChangedTable, why: str) -> str:
    """A table whose rows could not be compared."""
    was = table.before.rows if table.before is not None else None
    return f"{table.name}: {_count(was)} before, {_count(table.now.rows)} now ({why})"


def format_difference(document: Mapping[str, Any], width: int | None = None) -> Iterator[str]:
    """How the rows of a table differ from before: how many, and a few of them; `document` is what `sqb diff` says."""
    rows, samples = document["rows"] or {}, document["samples"] or {}
    words = {"added": "added", "removed": "removed", "changed": "changed"}
    counts = [f"{rows[key]} {word}" for key, word in words.items() if rows.get(key)]
    columns = document["columns"]
    counts += [f"column {c['name']} added" for c in columns["added"]]
    counts += [f"column {c['name']} removed" for c in columns["removed"]]
    counts += [f"column {c['name']} has another type" for c in columns["retyped"]]
    yield f"{document['name']}: {', '.join(counts) or 'the same rows'}"
    for sign, key in (("+", "added"), ("-", "removed")):
        for row in (samples.get(key) or ())[:_EXAMPLES]:
            yield cut_text(f"  {sign} {_format_row(row)}", width or _WIDTH)
    for row in (samples.get("changed") or ())[:_EXAMPLES]:
        changes = ", ".join(f"{c}: {_show(v['from'])} → {_show(v['to'])}" for c, v in row["changes"].items())
        yield cut_text(f"  ~ {_format_row(row['key'])}  {changes}", width or _WIDTH)


def _format_row(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_show(value)}" for name, value in row.items())


def _show(value: object) -> str:
    return "NULL" if value is None else str(value)


def _count(rows: int | None) -> str:
    if rows is None:
        return "an unknown number of rows"
    return "1 row" if rows == 1 else f"{rows} rows"
