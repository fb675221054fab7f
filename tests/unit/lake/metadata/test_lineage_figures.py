"""What the summary of a snapshot tells of the rows that have to be read to see what it changed."""

from __future__ import annotations

import pytest

from sqb.lake.metadata.table_state import parse_lineage


def read_figure(**summary: str) -> int | None:
    snapshot = {"snapshot-id": 1, "summary": {"operation": "overwrite", **summary}}
    (info,) = parse_lineage({"current-snapshot-id": 1, "snapshots": [snapshot]})
    return info.rows_beside_hidden


@pytest.mark.parametrize(
    ("deletes", "values", "rows"),
    [
        # No rows were hidden; those of one file of ten; of more files than there are; by values, anywhere.
        ("0", "0", 0),
        ("1", "0", 100),
        ("30", "0", 1_000),
        ("1", "5", 1_000),
    ],
)
def test_rows_of_files_that_new_delete_files_point_into(deletes: str, values: str, rows: int) -> None:
    totals = {"total-records": "1000", "total-data-files": "10"}
    added = {"added-delete-files": deletes, "added-equality-deletes": values}
    assert read_figure(**totals, **added) == rows


def test_a_summary_that_counts_nothing_tells_nothing() -> None:
    assert read_figure() is None
