"""The rows that a loader gives, as Arrow files that all have one schema in the end.

Rows may come in any number of pieces, and only one piece is held at a time. The type of a column is the one that holds
the values of all rows, or the one that the loader declares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from types import NoneType
from typing import Any

import pyarrow as pa

from sqb.errors.python import BadData
from sqb.python_runtime.loader.arrays import build_array
from sqb.python_runtime.loader.convert import build_converter, format_refusal
from sqb.types import model as m
from sqb.types.arrow import UnsupportedArrowType, from_arrow_type, to_arrow_type
from sqb.types.infer import UnfitValue, infer_type, unwrap_value
from sqb.types.loaded import join_types
from sqb.types.model import STRING, VOID, ArrayType, DecimalType, MapType, StructType, Type

# The types whose values can be taken without looking at each.
_PLAIN: Mapping[type, Type] = {
    NoneType: VOID,
    bool: m.BOOLEAN,
    int: m.BIGINT,
    float: m.DOUBLE,
    str: m.STRING,
    bytes: m.BINARY,
    date: m.DATE,
}
_CONVERSION_ERRORS = (pa.ArrowException, OverflowError, TypeError, ValueError)
_TYPE_HINT = 'give all rows one type, or say which: columns={{"{}": "{}"}}'


class ArrowFiles:
    """Rows on their way into files."""

    def __init__(self, folder: Path, declared: Mapping[str, Type]) -> None:
        self._folder = folder
        self._declared = dict(declared)
        self._converters = {name: build_converter(kind) for name, kind in declared.items()}
        self._kinds: dict[str, Type] = dict(declared)
        self._spelled = {name.lower(): name for name in declared}
        # The row in which a column got a type for the first time.
        self._typed_in: dict[str, int] = {}
        self._files: list[Path] = []
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None
        self._schema: pa.Schema | None = None
        self.rows = 0

    # --- taking in ------------------------------------------------------------------------------------------------

    def add_rows(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Take in rows, each by the names of its columns; what is missing is NULL."""
        names: dict[str, None] = {}
        for row in rows:
            names.update(dict.fromkeys(row))
        arrays: dict[str, pa.Array] = {}
        for name in names:
            self._check_name(name)
            values = [row.get(name) for row in rows]
            arrays[name] = (
                self._convert_array(name, values) if name in self._declared else self._infer_array(name, values)
            )
        self._write(arrays, len(rows))

    def add_arrow(self, table: pa.Table | pa.RecordBatch) -> None:
        """Take in a table of Arrow's."""
        arrays: dict[str, pa.Array] = {}
        for field, column in zip(table.schema, table.columns, strict=True):
            if field.name in arrays:
                raise BadData(f'two columns are called "{field.name}"')
            self._check_name(field.name)
            try:
                kind = from_arrow_type(field.type, field.name)
                if field.name not in self._declared and table.num_rows:
                    self._widen_type(field.name, kind, self.rows + 1)
                else:
                    self._kinds.setdefault(field.name, kind)
                arrays[field.name] = cast_column(column, self._kinds[field.name])
            except UnsupportedArrowType as error:
                message = f'column "{error.path}": {error.kind} is not a type that a column can have'
                raise BadData(message, hint=error.hint) from error
            except _CONVERSION_ERRORS as error:
                words = str(error).splitlines()[0]
                raise BadData(f'column "{field.name}" cannot be {self._kinds[field.name]}: {words}') from error
        self._write(arrays, table.num_rows)

    def _check_name(self, name: Any) -> None:
        if not isinstance(name, str) or not name:
            raise BadData(f"{name!r} is not a column name", hint="names of columns are texts")
        spelled = self._spelled.setdefault(name.lower(), name)
        if spelled != name:
            raise BadData(
                f'two columns are called "{spelled}" and "{name}"', hint="names that differ only in case are the same"
            )

    def _widen_type(self, name: str, kind: Type, row: int) -> None:
        """Widen the type of a column, or refuse."""
        before = self._kinds.get(name, VOID)
        common = join_types(before, kind)
        if common is None:
            raise BadData(
                f'column "{name}" is {before} in row {self._typed_in.get(name, 1):,} and {kind} in row {row:,}',
                hint=_TYPE_HINT.format(name, "string"),
            )
        self._kinds[name] = common
        if kind != VOID:
            self._typed_in.setdefault(name, row)

    def _infer_array(self, name: str, values: list[Any]) -> pa.Array:
        types = set(map(type, values))
        if types <= _PLAIN.keys() and len(types - {NoneType}) <= 1:
            kind = next((_PLAIN[t] for t in types if t is not NoneType), VOID)
            first = next((i for i, v in enumerate(values) if v is not None), 0) if kind != VOID else 0
            self._widen_type(name, kind, self.rows + first + 1)
        else:
            values = [unwrap_value(value) for value in values]
            for number, value in enumerate(values, self.rows + 1):
                self._widen_type(name, self._infer_type(name, value, number), number)
        return self._build_column(name, values)

    def _infer_type(self, name: str, value: Any, row: int) -> Type:
        try:
            return infer_type(value)
        except UnfitValue as unfit:
            raise BadData(f'column "{name}" in row {row:,}: {unfit.message}', hint=unfit.hint) from unfit

    def _convert_array(self, name: str, values: list[Any]) -> pa.Array:
        convert, kind = self._converters[name], self._declared[name]
        converted = []
        for number, value in enumerate(values, self.rows + 1):
            try:
                converted.append(convert(value))
            except (ValueError, OverflowError) as error:
                raise BadData(
                    f'column "{name}" in row {number:,}: {format_refusal(kind, value, str(error))}'
                ) from error
        return self._build_column(name, converted)

    def _build_column(self, name: str, values: list[Any]) -> pa.Array:
        kind = self._kinds[name]
        try:
            return build_array(kind, values)
        except _CONVERSION_ERRORS:
            for number, value in enumerate(values, self.rows + 1):
                self._check_value(name, kind, value, number)
            raise

    def _check_value(self, name: str, kind: Type, value: Any, row: int) -> None:
        try:
            build_array(kind, [value])
        except OverflowError as error:
            raise BadData(
                f'column "{name}" in row {row:,}: {format_refusal(kind, value, "it is too large")}',
                hint=_TYPE_HINT.format(name, "decimal(38,0)"),
            ) from error
        except _CONVERSION_ERRORS as error:
            raise BadData(
                f'column "{name}" in row {row:,}: {format_refusal(kind, value, str(error))}',
                hint=_TYPE_HINT.format(name, "string"),
            ) from error

    # --- files ----------------------------------------------------------------------------------------------------

    def _write(self, arrays: Mapping[str, pa.Array | pa.ChunkedArray], rows: int) -> None:
        schema = self._build_schema()
        columns = [arrays[f.name] if f.name in arrays else pa.nulls(rows, f.type) for f in schema]
        if self._writer is None or schema != self._schema:
            self._close()
            self._schema = schema
            self._files.append(self._folder / f"rows-{len(self._files)}.arrow")
            self._writer = pa.ipc.new_stream(self._files[-1], schema)
        if not schema.names and rows:
            raise BadData("the rows have no columns")
        self._writer.write_table(pa.Table.from_arrays(columns, schema=schema))
        self.rows += rows

    def _build_schema(self) -> pa.Schema:
        return pa.schema([pa.field(name, to_arrow_type(kind)) for name, kind in self._kinds.items()])

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def finish(self) -> list[Path]:
        """The files, in the order of the rows; what was written before a type became wider is written again."""
        if not self._files:
            self._write({}, 0)
        self._close()
        schema = self._build_schema()
        return [self._rewrite_file(file, schema) for file in self._files]

    def _rewrite_file(self, file: Path, schema: pa.Schema) -> Path:
        with pa.OSFile(str(file)) as source, pa.ipc.open_stream(source) as reader:
            if reader.schema == schema:
                return file
            target = file.with_suffix(".wider.arrow")
            with pa.ipc.new_stream(target, schema) as writer:
                for batch in reader:
                    writer.write_table(self._widen_batch(batch, schema))
        file.unlink()
        return target

    def _widen_batch(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.Table:
        columns = []
        for field in schema:
            if field.name not in batch.schema.names:
                columns.append(pa.nulls(batch.num_rows, field.type))
                continue
            try:
                columns.append(cast_column(batch.column(field.name), self._kinds[field.name]))
            except _CONVERSION_ERRORS as error:
                raise BadData(
                    f'column "{field.name}" cannot be {self._kinds[field.name]} in all rows:'
                    f" {str(error).splitlines()[0]}",
                    hint=_TYPE_HINT.format(field.name, "string"),
                ) from error
        return pa.Table.from_arrays(columns, schema=schema)


def cast_column(column: pa.Array | pa.ChunkedArray, kind: Type) -> pa.Array | pa.ChunkedArray:
    """A column as one of another type, without loss."""
    target = to_arrow_type(kind)
    if column.type == target:
        return column
    if isinstance(column.type, pa.BaseExtensionType):
        column = _unwrap_extension(column, kind)
    if not _can_cast_as_a_whole(from_arrow_type(column.type), kind):
        return build_array(kind, column.to_pylist())
    if not pa.types.is_nested(target):
        return column.cast(target)
    try:
        return column.cast(target)
    except (pa.ArrowException, TypeError):
        # Arrow does not add fields everywhere to what is nested; value by value they can be.
        return build_array(kind, column.to_pylist())


def _unwrap_extension(column: pa.Array | pa.ChunkedArray, kind: Type) -> pa.Array | pa.ChunkedArray:
    if kind == STRING:
        return build_array(kind, [None if value is None else str(value) for value in column.to_pylist()])
    return column.cast(column.type.storage_type)


def _can_cast_as_a_whole(source: Type, target: Type) -> bool:
    """Whether Arrow's cast is exact: it rounds decimals to doubles, and loses fields that are spelled otherwise."""
    match source, target:
        case ArrayType(one), ArrayType(two):
            return _can_cast_as_a_whole(one, two)
        case MapType(key, one), MapType(other_key, two):
            return _can_cast_as_a_whole(key, other_key) and _can_cast_as_a_whole(one, two)
        case StructType(fields), StructType():
            known = {f.name: f.type for f in target.fields}
            return all(f.name in known and _can_cast_as_a_whole(f.type, known[f.name]) for f in fields)
        case _:
            return not (isinstance(source, DecimalType) and m.is_fraction(target))
