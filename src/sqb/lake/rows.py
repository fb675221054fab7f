"""Small rows to data files without Spark, for seeds: given column by column, split by the table's partitions.

pyiceberg's own append needs a compiled extra for every transform but identity, and refuses two partitions of one
column; here the transforms run in Python, which is quick enough for what a person keeps in a CSV file.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import schema_to_pyarrow, write_file
from pyiceberg.manifest import DataFile
from pyiceberg.table import WriteTask
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, IcebergType, TimestampType, TimestamptzType


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
    table = pa.Table.from_arrays(arrays, schema=schema)
    if not table.num_rows:
        return []
    write_id = uuid.uuid4()
    tasks = (
        WriteTask(write_id, number, metadata.schema(), part.to_batches(), partition_key=key)
        for number, (key, part) in enumerate(_parts(metadata, table))
    )
    return list(write_file(io, metadata, tasks))


def _parts(metadata: TableMetadata, table: pa.Table) -> Iterator[tuple[Any, pa.Table]]:
    spec, schema = metadata.spec(), metadata.schema()
    if spec.is_unpartitioned():
        yield None, table
        return
    transformed: list[list[Any]] = []
    for field in spec.fields:
        source = schema.find_field(field.source_id)
        transform: Callable[[Any], Any] = field.transform.transform(source.field_type)
        transformed.append([transform(value) for value in _plain(table, source.name, source.field_type)])
    numbers: dict[tuple[Any, ...], list[int]] = {}
    for number, key in enumerate(zip(*transformed, strict=True)):
        numbers.setdefault(key, []).append(number)
    for key, rows in numbers.items():
        record = Record(*key)
        yield _Partition(record, spec.partition_to_path(record, schema)), table.take(rows)


def _plain(table: pa.Table, name: str, kind: IcebergType) -> list[Any]:
    """The values as transforms take them: days and microseconds rather than dates and times."""
    column = table.column(name)
    if isinstance(kind, DateType):
        column = column.cast(pa.int32())
    elif isinstance(kind, TimestampType | TimestamptzType):
        column = column.cast(pa.int64())
    values: list[Any] = column.to_pylist()
    return values
