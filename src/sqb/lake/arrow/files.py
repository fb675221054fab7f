"""Rows in files of Arrow's own, in the format for files or for streams, read a batch at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from sqb.errors.lake import UnsupportedType
from sqb.lake.arrow.cast import convert_batch
from sqb.types.arrow import UnsupportedArrowType, from_arrow_type
from sqb.types.iceberg import to_stored_type
from sqb.types.model import Type

# Rows that are worked on at once: few enough that a copy of them is nothing.
_ROWS_AT_ONCE = 1 << 16
# The first bytes of the file format; the stream format has none.
_MAGIC = b"ARROW1"


def read_schemas(files: Sequence[Path]) -> list[list[tuple[str, pa.DataType]]]:
    """The columns of each file, in order; names may be there twice."""
    return [[(field.name, field.type) for field in _read_schema(file)] for file in files]


def convert_types(schema: Iterable[tuple[str, pa.DataType]]) -> dict[str, Type]:
    """The types as which a table holds the columns of a file; refused where it cannot hold one."""
    try:
        return {name: to_stored_type(from_arrow_type(kind, name)) for name, kind in schema}
    except UnsupportedArrowType as error:
        message = f'column "{error.path}" has the type {error.kind}, which an Iceberg table cannot hold'
        raise UnsupportedType(message, hint=error.hint) from error


def count_rows(files: Sequence[Path]) -> int:
    """How many rows files hold."""
    return sum(batch.num_rows for file in files for batch in _read(file))


def iter_batches(files: Sequence[Path], columns: Sequence[tuple[str, str, Type]]) -> Iterator[pa.RecordBatch]:
    """The rows with these columns: the name in the rows in any case ("" for none), that in the table, the type."""
    for file in files:
        for batch in _read(file):
            names = {name.lower(): name for name in batch.schema.names}
            selected = [
                (names.get(written.lower(), "") if written else "", name, kind) for written, name, kind in columns
            ]
            for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
                yield convert_batch(batch.slice(start, _ROWS_AT_ONCE), selected)


def _read_schema(file: Path) -> pa.Schema:
    with pa.memory_map(str(file)) as source:
        return _open_reader(source).schema


def _read(file: Path) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(str(file)) as source:
        reader = _open_reader(source)
        if isinstance(reader, pa.ipc.RecordBatchFileReader):
            yield from (reader.get_batch(number) for number in range(reader.num_record_batches))
        else:
            yield from reader


def _open_reader(source: pa.MemoryMappedFile) -> pa.ipc.RecordBatchFileReader | pa.ipc.RecordBatchStreamReader:
    is_file = source.read(len(_MAGIC)) == _MAGIC
    source.seek(0)
    return pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
