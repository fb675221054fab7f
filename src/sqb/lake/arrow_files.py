"""Rows in files of Arrow's own, in the format for files or for streams, read a batch at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from sqb.lake.arrow_types import type_of
from sqb.lake.arrow_values import converted
from sqb.project.column_types import Type

# Rows that are worked on at once: few enough that a copy of them is nothing.
_ROWS_AT_ONCE = 1 << 16
# How a file begins that is no stream.
_MAGIC = b"ARROW1"


def schemas_in(files: Sequence[Path]) -> list[list[tuple[str, pa.DataType]]]:
    """The columns of each file, in order; names may be there twice."""
    return [[(field.name, field.type) for field in _schema(file)] for file in files]


def types_of(schema: Iterable[tuple[str, pa.DataType]]) -> dict[str, Type]:
    """The types that the columns of a file have in Spark."""
    return {name: type_of(kind, name) for name, kind in schema}


def rows_in(files: Sequence[Path]) -> int:
    """How many rows files hold."""
    return sum(batch.num_rows for file in files for batch in _read(file))


def batches_in(files: Sequence[Path], columns: Sequence[tuple[str, str, Type]]) -> Iterator[pa.RecordBatch]:
    """The rows with these columns: the name in the rows in any case ("" for none), that in the table, the type."""
    for file in files:
        for batch in _read(file):
            there = {name.lower(): name for name in batch.schema.names}
            wanted = [
                (there.get(written.lower(), "") if written else "", name, kind) for written, name, kind in columns
            ]
            for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
                yield converted(batch.slice(start, _ROWS_AT_ONCE), wanted)


def _schema(file: Path) -> pa.Schema:
    with pa.memory_map(str(file)) as source:
        return _reader(source).schema


def _read(file: Path) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(str(file)) as source:
        reader = _reader(source)
        if isinstance(reader, pa.ipc.RecordBatchFileReader):
            yield from (reader.get_batch(number) for number in range(reader.num_record_batches))
        else:
            yield from reader


def _reader(source: pa.MemoryMappedFile) -> pa.ipc.RecordBatchFileReader | pa.ipc.RecordBatchStreamReader:
    is_file = source.read(len(_MAGIC)) == _MAGIC
    source.seek(0)
    return pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
