"""Rows of a query as a file or as CSV text: Parquet, CSV, or one JSON object a line."""

from __future__ import annotations

import json
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

    parquet.write_table(table, file)


def _write_lines(lines: Iterable[str], file: IO[bytes]) -> None:
    for line in lines:
        file.write(line.encode() + b"\n")


def _iter_rows(table: pyarrow.Table) -> Iterator[tuple[Any, ...]]:
    for batch in table.to_batches():
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


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
            return json.dumps(_make_plain(value), ensure_ascii=False, default=format_plain)
        case _:
            return str(value)


def _make_plain(value: Any) -> Any:
    """Nested values as JSON has them: rows of Spark are tuples that know their names."""
    match value:
        case dict():
            return {format_plain(key): _make_plain(item) for key, item in value.items()}
        case tuple() if hasattr(value, "asDict"):
            return {key: _make_plain(item) for key, item in value.asDict().items()}
        case list() | tuple():
            return [_make_plain(item) for item in value]
        case _:
            return value


def _format_objects(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    for row in rows:
        yield json.dumps(
            dict(zip(columns, map(_make_plain, row), strict=True)), ensure_ascii=False, default=format_plain
        )
