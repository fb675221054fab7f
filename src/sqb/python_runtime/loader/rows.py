"""What a loader returns or writes, whatever it is made of: rows, pandas, Arrow, generators of these, or Spark's.

Rows end up in Arrow files, Spark's DataFrames stay what they are. Neither pandas nor pyspark is loaded by this.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqb.errors.python import BadData
from sqb.python_runtime.json_payload import describe_value

if TYPE_CHECKING:
    from sqb.python_runtime.loader.arrow_files import ArrowFiles
    from sqb.types.model import Type

# Rows that are held at once, and how much text and bytes in them.
_MAX_BUFFERED_ROWS = 20_000
_MAX_BUFFERED_BYTES = 64_000_000
_ACCEPTED = (
    "rows are dicts, or tuples with `columns` declared; pandas, pyarrow and Spark DataFrames are taken as they are"
)


def is_spark(value: Any) -> bool:
    """Whether a value is a DataFrame of Spark's."""
    return _is_instance_of(value, "pyspark", "DataFrame")


def is_pandas(value: Any) -> bool:
    """Whether a value is a DataFrame of pandas'."""
    return _is_instance_of(value, "pandas", "DataFrame")


def is_arrow(value: Any) -> bool:
    """Whether a value holds columns of Arrow's, or can be read as such."""
    return hasattr(type(value), "__arrow_c_stream__") or hasattr(type(value), "__arrow_c_array__")


def _is_instance_of(value: Any, package: str, name: str) -> bool:
    return any(c.__name__ == name and c.__module__.partition(".")[0] == package for c in type(value).__mro__)


class LoaderOutput:
    """Everything that a node gave in one run."""

    def __init__(self, folder: Path, columns: Mapping[str, str] | None) -> None:
        self._folder, self._columns = folder, columns
        self._table: ArrowFiles | None = None
        self._buffered: list[Mapping[str, Any]] = []
        self._size = 0
        self.frames: list[Any] = []

    @property
    def has_data(self) -> bool:
        """Whether anything was given, be it no rows at all."""
        return self._table is not None or bool(self.frames) or bool(self._buffered)

    def write(self, value: Any) -> None:
        """Take in what a loader returned or wrote."""
        if value is None:
            return
        if isinstance(value, Mapping):
            self._add_row(value)
        elif is_spark(value):
            self._add_frame(value)
        elif is_pandas(value):
            self._add_pandas(value)
        elif is_arrow(value):
            self._add_arrow(value)
        elif isinstance(value, Iterable) and not isinstance(value, str | bytes | bytearray):
            self._add_items(value)
        else:
            raise BadData(f"{describe_value(value)} holds no rows", hint=_ACCEPTED)

    def finish(self) -> list[Path]:
        """The files of all rows, in their order."""
        self._flush()
        return self._table.finish() if self._table is not None else []

    @property
    def rows(self) -> int:
        return self._table.rows if self._table is not None else 0

    # --- rows -----------------------------------------------------------------------------------------------------

    def _add_items(self, items: Iterable[Any]) -> None:
        if not isinstance(items, Iterator):
            # No rows are something else than nothing: they empty a table that is replaced.
            self._get_table()
        for item in items:
            if item is None or isinstance(item, str | bytes | bytearray):
                raise self._build_bad_row(item)
            if isinstance(item, list) and not self._is_row(item):
                self._get_table()
                for row in item:
                    self._add_row(row)
            elif is_spark(item) or is_pandas(item) or is_arrow(item):
                self.write(item)
            else:
                self._add_row(item)

    def _is_row(self, item: list[Any]) -> bool:
        """Whether a list is a row, as a reader of CSV gives them, and not a page of rows."""
        if not self._columns or not item:
            return False
        return not (isinstance(item[0], Mapping | tuple | list) or dataclasses.is_dataclass(item[0]))

    def _add_row(self, row: Any) -> None:
        named = self._to_mapping(row)
        self._buffered.append(named)
        self._size += sum(len(value) for value in named.values() if isinstance(value, str | bytes))
        if len(self._buffered) >= _MAX_BUFFERED_ROWS or self._size > _MAX_BUFFERED_BYTES:
            self._flush()

    def _to_mapping(self, row: Any) -> Mapping[str, Any]:
        if isinstance(row, Mapping):
            # A generator may fill one and the same dict again and again.
            return dict(row)
        if isinstance(row, tuple | list):
            fields = getattr(row, "_fields", None) or getattr(row, "__fields__", None)
            return self._name_values(row, fields or self._columns)
        if dataclasses.is_dataclass(row) and not isinstance(row, type):
            return {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}
        if hasattr(row, "keys") and hasattr(row, "__getitem__"):
            return {key: row[key] for key in row.keys()}  # noqa: SIM118 - the rows of sqlite3 have no other way
        raise self._build_bad_row(row)

    def _name_values(self, row: Any, names: Iterable[str] | None) -> Mapping[str, Any]:
        if not names:
            raise BadData(
                f"row {self._get_row_number():,} is {describe_value(row)}, and its columns are not declared",
                hint='declare them, columns={"id": "bigint", "name": "string"}, or give dicts',
            )
        mapping = dict(zip(names, row, strict=False))
        if len(mapping) != len(row) or len(row) != len(list(names)):
            values = f"{len(row)} value{'' if len(row) == 1 else 's'}"
            raise BadData(f"row {self._get_row_number():,} has {values} for {len(list(names))} columns")
        return mapping

    def _build_bad_row(self, value: Any) -> BadData:
        return BadData(
            f"row {self._get_row_number():,} is {describe_value(value) if value is not None else None}", hint=_ACCEPTED
        )

    def _get_row_number(self) -> int:
        return self.rows + len(self._buffered) + 1

    def _flush(self) -> None:
        if self._buffered:
            rows, self._buffered, self._size = self._buffered, [], 0
            self._get_table().add_rows(rows)

    # --- whole tables ---------------------------------------------------------------------------------------------

    def _add_pandas(self, frame: Any) -> None:
        import pyarrow as pa  # only what holds rows pays for it

        self._flush()
        # A name says that an index means something.
        if any(name is not None for name in frame.index.names):
            frame = frame.reset_index()
        try:
            table = pa.Table.from_pandas(frame, preserve_index=False)
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise BadData(f"the pandas DataFrame makes no table: {_format_arrow_error(error)}") from error
        self._get_table().add_arrow(table)

    def _add_arrow(self, value: Any) -> None:
        import pyarrow as pa  # only what holds rows pays for it

        self._flush()
        table = self._get_table()
        try:
            reader = _open_reader(pa, value)
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise BadData(
                f"{describe_value(value)} makes no table: {_format_arrow_error(error)}", hint=_ACCEPTED
            ) from error
        table.add_arrow(reader.schema.empty_table())
        for batch in reader:
            table.add_arrow(batch)

    def _add_frame(self, frame: Any) -> None:
        if self._table is not None or self._buffered:
            raise _build_mixed_error()
        self.frames.append(frame)

    def _get_table(self) -> ArrowFiles:
        if self.frames:
            raise _build_mixed_error()
        if self._table is None:
            from sqb.python_runtime.loader.arrow_files import (
                ArrowFiles,  # loads Arrow, which only what holds rows pays for
            )

            self._table = ArrowFiles(self._folder, self.parse_declared_types())
        return self._table

    def parse_declared_types(self) -> dict[str, Type]:
        """The types that the loader declares for its columns."""
        from sqb.types.iceberg import parse_storable_type  # only what holds rows pays for it

        types = {}
        for name, text in (self._columns or {}).items():
            kind = parse_storable_type(text)
            if kind is None:
                raise BadData(f'column "{name}": there is no type {text}', hint="write one of Spark's, such as bigint")
            types[name] = kind
        return types


def _open_reader(pa: Any, value: Any) -> Any:
    if isinstance(value, pa.RecordBatchReader):
        return value
    if isinstance(value, pa.Table):
        return value.to_reader()
    if hasattr(value, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(value)
    batch = pa.record_batch(value)
    return pa.RecordBatchReader.from_batches(batch.schema, [batch])


def _build_mixed_error() -> BadData:
    return BadData(
        "rows and Spark DataFrames in one load", hint="make one DataFrame of all: ctx.spark.createDataFrame(rows)"
    )


def _format_arrow_error(error: BaseException) -> str:
    """What Arrow says of pandas' columns, in one line."""
    return " ".join(str(part) for part in error.args).splitlines()[0] if error.args else type(error).__name__
