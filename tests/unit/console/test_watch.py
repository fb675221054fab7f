"""The lines of `sqb watch`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqb.console.watch import format_difference, format_new_table, format_save, format_unknown
from sqb.operations.watch import ChangedTable, TableVersion

NOW = datetime(2026, 1, 31, 9, 5, 7)


def document(**parts: Any) -> dict[str, Any]:
    columns: dict[str, Any] = {"added": [], "removed": [], "retyped": []}
    rows = {"added": 0, "removed": 0, "changed": None, "unchanged": 1, "by_column": None}
    samples: dict[str, Any] = {"added": [], "removed": [], "changed": []}
    return {"name": "marts.x", "columns": columns, "rows": rows, "samples": samples, **parts}


def test_what_was_saved() -> None:
    assert format_save((), NOW) == "--- 09:05:07 first look"
    assert format_save(("a", "b"), NOW) == "--- 09:05:07 a, b"
    assert format_save(("a", "b", "c", "d", "e"), NOW) == "--- 09:05:07 a, b, c and 2 more"


def test_rows_that_came_and_went() -> None:
    rows = {"added": 5, "removed": 1, "changed": None, "unchanged": 1, "by_column": None}
    samples = {"added": [{"id": i, "v": None} for i in range(4)], "removed": [{"id": 9, "v": "x" * 200}], "changed": []}
    lines = list(format_difference(document(rows=rows, samples=samples)))
    assert lines[:4] == ["marts.x: 5 added, 1 removed", "  + id=0, v=NULL", "  + id=1, v=NULL", "  + id=2, v=NULL"]
    assert lines[4].startswith("  - id=9, v=xxx") and len(lines[4]) == 100 and lines[4].endswith("…")
    assert len(lines) == 5


def test_rows_that_changed_and_columns() -> None:
    rows = {"added": 0, "removed": 0, "changed": 2, "unchanged": 1, "by_column": {"v": 2}}
    samples = {"added": [], "removed": [], "changed": [{"key": {"id": 1}, "changes": {"v": {"from": 1, "to": None}}}]}
    columns = {
        "added": [{"name": "n", "type": "int"}],
        "removed": [{"name": "o", "type": "int"}],
        "retyped": [{"name": "t", "from": "int", "to": "bigint"}],
    }
    assert list(format_difference(document(rows=rows, samples=samples, columns=columns))) == [
        "marts.x: 2 changed, column n added, column o removed, column t has another type",
        "  ~ id=1  v: 1 → NULL",
    ]
    assert list(format_difference(document(rows=None, samples=None))) == ["marts.x: the same rows"]


def test_tables_that_are_not_compared() -> None:
    before, now = TableVersion(1, (1,), "", 1), TableVersion(2, (2,), "", 3)
    assert format_new_table(ChangedTable("marts.x", None, now)) == "marts.x: new, 3 rows"
    assert format_unknown(ChangedTable("marts.x", before, now), "why") == "marts.x: 1 row before, 3 rows now (why)"
