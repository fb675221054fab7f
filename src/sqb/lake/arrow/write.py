"""Rows to data files without Spark: those of seeds, given column by column, and those of loaders, in Arrow batches.

pyiceberg's own append needs a compiled extra for every transform but identity, and refuses two partitions of one
column; here the transforms run in Python, once for each value.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import schema_to_pyarrow, write_file
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import WriteTask
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, IcebergType, TimestampType, TimestamptzType

from sqb.errors.build import RowsUnfit

# What is held before it is written: Parquet makes a file of a quarter of it, or less.
_BYTES_AT_ONCE = 128 * 1024 * 1024
_FORMAT = "write.format.default"


@dataclass(frozen=True, slots=True)
class _Partition:
    """The values that a file's rows share, and the folder they go to."""

    partition: Record
    path: str

    def to_path(self) -> str:
        return self.path


def write_rows(metadata: TableMetadata, io: FileIO, columns: Sequence[Sequence[Any]]) -> list[DataFile]:
    """The data files that hold the rows; none when there are no rows."""
    schema = schema_to_pyarrow(metadata.schema(), include_field_ids=False)
    arrays = [pa.array(values, type=field.type) for values, field in zip(columns, schema, strict=True)]
    return list(_write_tables(metadata, io, [pa.Table.from_arrays(arrays, schema=schema)]))


def write_batches(metadata: TableMetadata, io: FileIO, batches: Iterable[pa.RecordBatch]) -> list[DataFile]:
    """The data files that hold the rows of batches, of which only as many are in memory as go to one file."""
    schema = schema_to_pyarrow(metadata.schema(), include_field_ids=False)
    if metadata.properties.get(_FORMAT, "parquet") != "parquet":
        # The others are for Spark alone; a table may have files of several formats.
        metadata = metadata.model_copy(update={"properties": {**metadata.properties, _FORMAT: "parquet"}})
    return list(_write_tables(metadata, io, _iter_tables(schema, metadata.schema(), batches)))


def _write_tables(metadata: TableMetadata, io: FileIO, tables: Iterable[pa.Table]) -> Iterator[DataFile]:
    write_id, numbers = uuid.uuid4(), count()
    for table in tables:
        for key, part in _split_by_partition(metadata, table) if table.num_rows else ():
            task = WriteTask(write_id, next(numbers), metadata.schema(), part.to_batches(), partition_key=key)
            # One at a time: pyiceberg would take all that it is offered before it writes the first.
            yield from write_file(io, metadata, iter([task]))


def _iter_tables(schema: pa.Schema, table_schema: Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows of batches in pieces of the size of a file, with the columns of the table."""
    required = [f.name for f in table_schema.fields if f.required]
    pending: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        pending.append(_align_batch(batch, schema, required))
        size += batch.nbytes
        if size >= _BYTES_AT_ONCE:
            yield pa.Table.from_batches(pending, schema)
            pending, size = [], 0
    if pending:
        yield pa.Table.from_batches(pending, schema)


def _align_batch(batch: pa.RecordBatch, schema: pa.Schema, required: Sequence[str]) -> pa.RecordBatch:
    """A batch with the columns of the table, in its order; those that it does not have are NULL."""
    arrays = []
    for field in schema:
        index = batch.schema.get_field_index(field.name)
        column = batch.column(index) if index >= 0 else pa.nulls(batch.num_rows, field.type)
        arrays.append(column if column.type == field.type else column.cast(field.type))
    for name in required:
        missing = arrays[schema.get_field_index(name)].null_count
        if missing:
            raise RowsUnfit(
                f'column "{name}" must not be NULL in the table, and is in {missing} of {batch.num_rows} rows',
                hint="give it a value in every row, or let the table allow NULL: ALTER TABLE … ALTER COLUMN …"
                " DROP NOT NULL",
            )
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _split_by_partition(metadata: TableMetadata, table: pa.Table) -> Iterator[tuple[Any, pa.Table]]:
    spec, schema = metadata.spec(), metadata.schema()
    if spec.is_unpartitioned():
        yield None, table
        return
    codes: list[Any] = []
    values: list[list[Any]] = []
    for field in spec.fields:
        source = schema.find_field(field.source_id)
        transform: Callable[[Any], Any] = field.transform.transform(source.field_type)
        code, known = _apply_transform(table, source.name, source.field_type, transform)
        codes.append(code)
        values.append(known)
    names = [f"c{i}" for i in range(len(codes))]
    numbered = pa.table([*codes, pa.array(range(table.num_rows), pa.int64())], names=[*names, "row"])
    for group in numbered.group_by(names, use_threads=False).aggregate([("row", "list")]).to_pylist():
        record = Record(*(known[group[name]] for name, known in zip(names, values, strict=True)))
        yield _Partition(record, spec.partition_to_path(record, schema)), table.take(pa.array(group["row_list"]))


def _apply_transform(
    table: pa.Table, name: str, kind: IcebergType, transform: Callable[[Any], Any]
) -> tuple[pa.Array, list[Any]]:
    """A number for each row that says which of the partition's values it has, and these values."""
    encoded = _get_plain_values(table, name, kind).dictionary_encode(null_encoding="encode")
    codes: dict[Any, int] = {}
    numbers = [codes.setdefault(transform(value), len(codes)) for value in encoded.dictionary.to_pylist()]
    return pc.take(pa.array(numbers, pa.int32()), encoded.indices), list(codes)


def _get_plain_values(table: pa.Table, name: str, kind: IcebergType) -> pa.Array:
    """The values as transforms take them: days and microseconds rather than dates and times."""
    column = table.column(name)
    if isinstance(kind, DateType):
        column = column.cast(pa.int32())
    elif isinstance(kind, TimestampType | TimestamptzType):
        column = column.cast(pa.int64())
    return column.combine_chunks()
