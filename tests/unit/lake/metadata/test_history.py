"""How much a table changed between two snapshots, from their summaries alone."""

from __future__ import annotations

from typing import Any

import pytest

from sqb.lake.metadata.history import UNKNOWN, RowChanges, compute_row_changes, read_history


def snapshot(number: int, parent: int | None, operation: str = "append", **summary: int) -> dict[str, Any]:
    messages = {k.replace("_", "-"): str(v) for k, v in summary.items()}
    return {
        "snapshot-id": number,
        "parent-snapshot-id": parent,
        "timestamp-ms": 1000 * number,
        "schema-id": 0,
        "summary": {"operation": operation, "total-data-files": "1", **messages},
    }


DOCUMENT: dict[str, Any] = {
    "schemas": [{"schema-id": 0, "fields": [{"id": 1, "name": "id", "type": "long"}]}],
    "snapshots": [
        snapshot(1, None, added_records=10, total_records=10),
        snapshot(2, 1, added_records=3, total_records=13),
        snapshot(3, 2, "replace", added_records=13, deleted_records=13, total_records=13),
        snapshot(4, 3, "delete", deleted_records=2, total_records=11),
        snapshot(5, 4, "overwrite", added_records=11, deleted_records=11, total_records=11),
        snapshot(6, 5, "delete", added_position_deletes=1, total_records=11, total_delete_files=1),
        snapshot(7, 6, "delete", added_equality_deletes=1, total_records=11, total_delete_files=2),
        snapshot(8, 2, added_records=1),
    ],
}


@pytest.mark.parametrize(
    ("old", "new", "moved"),
    [
        (1, 2, RowChanges(3, 0, True)),
        (None, 2, RowChanges(13, 0, True)),
        (1, 3, RowChanges(3, 0, True)),
        (2, 3, RowChanges(0, 0, True)),
        (3, 4, RowChanges(0, 2, True)),
        (1, 4, RowChanges(3, 2, False)),
        (4, 5, RowChanges(11, 11, False)),
        (5, 6, RowChanges(0, 1, True)),
        (6, 7, UNKNOWN),
        (5, 5, RowChanges(0, 0, True)),
        (5, 8, UNKNOWN),
        (99, 5, UNKNOWN),
        (5, None, UNKNOWN),
    ],
)
def test_what_happened_between_two_snapshots(old: int | None, new: int | None, moved: RowChanges) -> None:
    assert compute_row_changes(read_history(DOCUMENT), old, new) == moved


def test_every_snapshot_has_its_columns_rows_and_time() -> None:
    past = read_history(DOCUMENT)
    assert [(s.id, s.rows) for s in past.values()] == [
        (1, 10),
        (2, 13),
        (3, 13),
        (4, 11),
        (5, 11),
        (6, None),
        (7, None),
        (8, None),
    ]
    assert [c.name for c in past[1].columns] == ["id"]
    assert past[1].at.isoformat() == "1970-01-01T00:00:01+00:00"
    assert read_history({}) == {}


def test_a_writer_that_counts_nothing_tells_nothing() -> None:
    silent = {"snapshots": [snapshot(1, None), {"snapshot-id": 2, "parent-snapshot-id": 1, "summary": {}}]}
    assert compute_row_changes(read_history(silent), 1, 2) == UNKNOWN
