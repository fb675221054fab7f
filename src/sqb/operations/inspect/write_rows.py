"""Rows of a query as a file or as CSV text: Parquet, CSV, or one JSON object a line."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from sqb.errors.call import CallError

if TYPE_CHECKING:
    import pyarrow

_ENDINGS = (".parquet", ".csv", ".jsonl")


def check_output(path: Path) -> None:
    """Refuse a file that rows cannot be written to, before anything runs."""
    if path.suffix.lower() not in _ENDINGS:
        raise CallError(f"--output {path}: its name tells no format", hint=f"end it with {', '.join(_ENDINGS)}")
    if not path.parent.is_dir():
        raise CallError(f"--output {path}: there is no folder {path.parent}", hint="make it, or write elsewhere")
    if path.is_dir():
        raise CallError(f"--output {path} is a folder", hint="name a file")


def write_rows(table: pyarrow.Table, path: Path) -> tuple[tuple[str, ...], int]:
    """Write a table to a file, all of it or nothing; returns its columns and the number of its rows."""
    columns = tuple(table.column_names)
    write: Callable[[Any], object]
    match path.suffix.lower():
        case ".parquet":
            write = lambda file: _write_parquet(table, file)  # noqa: E731
        case ".csv":
            write = lambda file: _write_lines(format_csv(columns, _iter_rows(table)), file)  # noqa: E731
        case _:
            write = lambda file: _write_lines(_format_objects(columns, _iter_rows(table)), file)  # noqa: E731
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(beside, "wb") as file:
            write(file)
        os.replace(beside, path)
    except OSError as error:
        raise CallError(f"--output {path} cannot be written: {error.strerror}") from error
    finally:
        beside.unlink(missing_ok=True)
    return columns, table.num_rows


def _write_parquet(table: pyarrow.Table, file: IO[bytes]) -> None:
    from pyarrow import parquet  # only this format needs it

    # Readers of Parquet find columns by their names.
    parquet.write_table(table.rename_columns(number_repeated(table.column_names)), file)


def _write_lines(lines: Iterable[str], file: IO[bytes]) -> None:
    for line in lines:
        file.write(line.encode() + b"\n")


def _iter_rows(table: pyarrow.Table) -> Iterator[tuple[Any, ...]]:
    for batch in table.to_batches():
        yield from zip(*(column.to_pylist(maps_as_pydicts="lossy") for column in batch.columns), strict=True)


def format_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Rows as lines of CSV, their names first. NULL is empty, an empty text is quoted, and nested values are JSON."""
    for row in chain((columns,), rows):
        yield ",".join(map(_format_field, row))


def _format_field(value: Any) -> str:
    if value is None:
        return ""
    text = format_plain(value)
    if text == "" or any(c in text for c in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text


def format_plain(value: Any) -> str:
    """A value as text, as programs read it."""
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.isoformat(" ")
        case date():
            return value.isoformat()
        case bytes() | bytearray():
            return value.hex()
        case list() | dict() | tuple():
            return json.dumps(encode_value(value), ensure_ascii=False)
        case _:
            return str(value)


def encode_value(value: Any) -> Any:
    """A value as JSON has it: rows of Spark are tuples that know their names, and what JSON lacks is text."""
    match value:
        case dict():
            return {format_plain(key): encode_value(item) for key, item in value.items()}
        case tuple() if hasattr(value, "asDict"):
            return {key: encode_value(item) for key, item in value.asDict().items()}
        case list() | tuple():
            return [encode_value(item) for item in value]
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case None | bool() | int() | float() | str():
            return value
        case _:
            return format_plain(value)


def number_repeated(names: Sequence[str]) -> list[str]:
    """The names of columns, each once: of those that are there already, the second is `name_1`."""
    used: set[str] = set()
    unique: list[str] = []
    for name in names:
        number, chosen = 0, name
        while chosen in used or (number and chosen in names):
            number += 1
            chosen = f"{name}_{number}"
        used.add(chosen)
        unique.append(chosen)
    return unique


def _format_objects(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    names = number_repeated(columns)
    for row in rows:
        yield json.dumps(dict(zip(names, map(encode_value, row), strict=True)), ensure_ascii=False)
