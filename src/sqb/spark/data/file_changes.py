"""The net change of a table from the files that tell it, which an invisible table lists.

It knows nothing of manifests: a part is a snapshot of that table, of which all rows count or those that deletes hide.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame, SparkSession

from sqb.names import quote
from sqb.spark.data.changes import MULTIPLICITY, sum_changes, union_all

# A snapshot of the invisible table, how often each of its rows counts, and whether those count that deletes hide.
Part = tuple[int, int, bool]


def read_file_changes(session: SparkSession, table: str, parts: Iterable[Part], columns: Sequence[str]) -> DataFrame:
    """The net change over some columns that the parts of an invisible table (a quoted name) add up to."""
    names, signs, frames = ", ".join(quote(c) for c in columns), set(), []
    for snapshot_id, sign, is_hidden in parts:
        # With this column in the scan, Iceberg shows the rows that deletes hide, and marks them.
        rows = f"SELECT {names}, {sign}L AS {MULTIPLICITY} FROM {table} VERSION AS OF {snapshot_id}"
        frames.append(session.sql(f"{rows} WHERE _deleted" if is_hidden else rows))
        signs.add(sign)
    # Rows that only came, or only went, need not be held against each other.
    return sum_changes(union_all(frames), columns) if len(signs) > 1 else union_all(frames)
