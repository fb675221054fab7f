"""The net change of a table from the files that tell it, which an invisible table lists.

It knows nothing of manifests: a part is a snapshot of that table, of which all rows count or those that deletes hide.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sqb.lake.port import FilePart
from sqb.names import quote
from sqb.spark.data.changes import MULTIPLICITY, sum_changes, union_all

# From so many rows on that may only have moved, it pays to cancel them by their ids first (bench/merge_on_read.py).
_CUT_FROM = 50_000
_ROW, _CHANGED, _UNNAMED, _VALUES = "__sqb_row", "__sqb_changed", "__sqb_unnamed", "__sqb_values"


def read_file_changes(
    session: SparkSession,
    table: str,
    parts: Sequence[FilePart],
    columns: Sequence[str],
    net: bool = True,
    cut_from: int = _CUT_FROM,
) -> DataFrame:
    """The change over some columns that the parts of an invisible table (a quoted name) add up to."""
    if not net or len({part.sign for part in parts}) < 2:
        # Rows that only came, or only went, need not be held against each other.
        return union_all([_read_part(session, table, part, columns) for part in parts])
    if not _can_cut(parts, cut_from):
        return sum_changes(union_all([_read_part(session, table, part, columns) for part in parts]), columns)
    ids = f", _row_id AS {_ROW}, _last_updated_sequence_number AS {_CHANGED}"
    rows = union_all([_read_part(session, table, part, columns, ids) for part in parts])
    return sum_changes(_cut_moved_rows(rows, columns), columns)


def _read_part(session: SparkSession, table: str, part: FilePart, columns: Sequence[str], more: str = "") -> DataFrame:
    names = ", ".join(quote(c) for c in columns)
    rows = f"SELECT {names}, {part.sign}L AS {MULTIPLICITY}{more} FROM {table} VERSION AS OF {part.snapshot_id}"
    # With this column in the scan, Iceberg shows the rows that deletes hide, and marks them.
    return session.sql(f"{rows} WHERE _deleted" if part.is_hidden else rows)


def _can_cut(parts: Sequence[FilePart], cut_from: int) -> bool:
    """Whether many rows may have been written anew as they were, and ids tell which."""
    written = [sum(p.rows for p in parts if p.sign == sign and not p.is_hidden) for sign in (1, -1)]
    return all(part.has_row_ids for part in parts) and min(written) >= cut_from


def _cut_moved_rows(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """The rows without those that came and went with the same id and the same last change: they only moved."""
    is_unnamed = F.col(_ROW).isNull() | F.col(_CHANGED).isNull()
    # Rows without an id are each a row of their own.
    named = rows.withColumn(_UNNAMED, F.when(is_unnamed, F.monotonically_increasing_id()).otherwise(F.lit(-1)))
    values = F.first(F.struct(*[F.col(quote(c)) for c in columns])).alias(_VALUES)
    summed = named.groupBy(_ROW, _CHANGED, _UNNAMED).agg(F.sum(MULTIPLICITY).alias(MULTIPLICITY), values)
    left = summed.where(F.col(MULTIPLICITY) != 0)
    return left.select(*[F.col(f"{_VALUES}.{quote(c)}").alias(c) for c in columns], MULTIPLICITY)
