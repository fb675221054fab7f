"""The rows that a table holds, read file by file without Spark, and only from files that can matter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    GreaterThanOrEqual,
    In,
    LessThanOrEqual,
)
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import FileFormat
from pyiceberg.table import FileScanTask, Table

from sqb.errors.lake import LakeError
from sqb.lake.commit.snapshot import has_delete_files
from sqb.lake.port import FileScan, ScanFile
from sqb.lake.private_api import iter_batches
from sqb.names import Relation

# Of so many values each is looked up in the statistics of files; of more only the smallest and the largest.
_FEW = 200


def find_files_with_keys(table: Table, relation: Relation, keys: pa.Table) -> FileScan:
    """The data files that may hold rows with these keys.

    Where rows are hidden by delete files it is all files, and they can only go together: so do the delete files.
    """
    is_full_scan = has_delete_files(table.metadata.current_snapshot(), table.io)
    row_filter: BooleanExpression = AlwaysTrue()
    for name in keys.schema.names if not is_full_scan else ():
        row_filter = And(row_filter, _build_key_filter(name, keys.column(name)))
    try:
        tasks = [t for t in table.scan(row_filter=row_filter).plan_files() if isinstance(t, FileScanTask)]
    except (NotImplementedError, ValueError) as error:
        raise _build_unreadable_error(relation, "it has rows that are deleted by their values") from error
    for task in tasks:
        if task.file.file_format not in (FileFormat.PARQUET, FileFormat.ORC):
            raise _build_unreadable_error(relation, f"it has files in the format {task.file.file_format.value}")
    return FileScan(tuple(_build_scan_file(table, task) for task in tasks), is_full_scan)


def _build_unreadable_error(relation: Relation, why: str) -> LakeError:
    return LakeError(
        f"the rows of {relation} cannot be read without Spark: {why}",
        hint="let the loader return a Spark DataFrame, or rewrite the files: CALL system.rewrite_data_files(…)",
    )


def _build_scan_file(table: Table, task: FileScanTask) -> ScanFile:
    def read(columns: Sequence[str]) -> Iterator[Any]:
        projected = table.schema().select(*columns)
        scan = ArrowScan(table.metadata, table.io, projected, AlwaysTrue())
        return iter_batches(scan, table.io, task)

    return ScanFile(task.file.file_path, read)


def _build_key_filter(name: str, values: pa.ChunkedArray) -> BooleanExpression:
    """A condition that rows with these values fulfil, and that statistics of files can tell something about."""
    kind = values.type
    fits = pa.types.is_integer(kind) or pa.types.is_large_string(kind) or pa.types.is_temporal(kind)
    if not (fits or pa.types.is_decimal(kind)) or not len(values):
        return AlwaysTrue()
    try:
        distinct = pc.unique(values)
        if len(distinct) <= _FEW:
            return _build_predicate(In, name, distinct.to_pylist())
        low, high = (scalar.as_py() for scalar in pc.min_max(values).values())
        return And(_build_predicate(GreaterThanOrEqual, name, low), _build_predicate(LessThanOrEqual, name, high))
    except (ValueError, ArithmeticError):
        # Times that Python does not have.
        return AlwaysTrue()


def _build_predicate(kind: Any, name: str, value: Any) -> BooleanExpression:
    """A predicate of pyiceberg's, which take plain values and do not say so to type checkers."""
    predicate: BooleanExpression = kind(name, value)
    return predicate
