"""Rows of a loader that are not Spark's: streamed from Arrow files into a stage, whatever the mode, without a JVM."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import pyarrow as pa

from sqb.build.load.columns import (
    LoadedColumn,
    check_column_names,
    compute_extended_columns,
    compute_replaced_columns,
    list_current_columns,
    merge_types,
    parse_declared_types,
)
from sqb.build.load.publish import (
    Load,
    build_empty_outcome,
    build_unchanged_outcome,
    list_key_columns,
    open_stage,
    publish_stage,
)
from sqb.build.node.context import NodeOutcome
from sqb.errors.build import SchemaRefused
from sqb.lake.arrow.cast import convert_batch
from sqb.lake.arrow.checksum import RowsContent, compute_content
from sqb.lake.arrow.files import convert_types, count_rows, iter_batches, read_schemas
from sqb.lake.arrow.upsert import UpsertChanges, compare_rows, filter_rows, hash_new_rows
from sqb.lake.port import FileScan, ScanFile, TableState
from sqb.types.model import Type

Content = Callable[[RowsContent], RowsContent | None]


@dataclass(frozen=True, slots=True)
class LocalRows:
    """Rows in Arrow files, with the columns that they have in all."""

    files: tuple[Path, ...]
    types: Mapping[str, Type]
    declared: Mapping[str, Type]

    @property
    def has_columns(self) -> bool:
        return bool(self.types or self.declared)

    def count_rows(self) -> int:
        return count_rows(self.files)

    def iter_batches(self, columns: Sequence[LoadedColumn]) -> Iterator[pa.RecordBatch]:
        return iter_batches(self.files, [(c.written, c.name, c.type) for c in columns if c.is_of_spark])


def read_local_rows(load: Load, files: Sequence[Path]) -> LocalRows:
    """The rows that a loader left in files; refused where no table could have their columns."""
    declared = parse_declared_types(load.columns, load.at)
    schemas = read_schemas(files)
    for schema in schemas:
        check_column_names([name for name, _ in schema], load.at)
    return LocalRows(tuple(files), merge_types(map(convert_types, schemas), declared, load.at), declared)


def replace_rows(load: Load, rows: LocalRows) -> NodeOutcome:
    """Replace all rows by the new ones, unless they are the same."""
    table_columns = list_current_columns(load.current)
    if not rows.has_columns and load.current is None:
        return build_empty_outcome(load)
    columns = compute_replaced_columns(rows.types, rows.declared, table_columns) if rows.has_columns else table_columns
    before = get_current_content(load.current)
    comparable = before is not None and has_same_columns(columns, table_columns) and before.count == rows.count_rows()
    if comparable and compute_content(rows.iter_batches(columns)) == before:
        return build_unchanged_outcome(load)
    return _write_batches(
        load, columns, rows.iter_batches(columns), None, lambda written: written, not rows.has_columns
    )


def append_rows(load: Load, rows: LocalRows) -> NodeOutcome:
    """Add the new rows to the current ones."""
    if load.current is None:
        return replace_rows(load, rows)
    if not rows.count_rows():
        return build_unchanged_outcome(load)
    columns = compute_extended_columns(rows.types, rows.declared, list_current_columns(load.current), load.at)
    return _append(load, columns, rows)


def _append(load: Load, columns: Sequence[LoadedColumn], rows: LocalRows) -> NodeOutcome:
    before = get_current_content(load.current) if load.current is not None else RowsContent()
    return _write_batches(
        load, columns, rows.iter_batches(columns), (), lambda written: None if before is None else before + written
    )


def upsert_rows(load: Load, rows: LocalRows) -> NodeOutcome:
    """Put each new row in the place of the rows with its key, or beside all others; a known row changes nothing."""
    current, table_columns = load.current, list_current_columns(load.current)
    if current is None and not rows.has_columns:
        return build_empty_outcome(load)
    if current is not None and not rows.count_rows():
        return build_unchanged_outcome(load)
    columns = compute_extended_columns(rows.types, rows.declared, table_columns, load.at)
    key = list_key_columns(load, [c.name for c in columns if c.written or not rows.types])
    new = hash_new_rows(rows.iter_batches(columns), key, [(c.name, c.type) for c in columns])
    if current is None or current.rows == 0 or not set(key) <= {c.name for c in table_columns}:
        return _append(load, columns, rows)
    _check_types(load, table_columns)
    scan = load.lake.find_files_with_keys(load.relation, current.base, new.keys)
    names = [c.name for c in table_columns]
    exchange = compare_rows(new, scan.files, key, names, _build_converter(columns))
    if not len(exchange.added_rows):
        return build_unchanged_outcome(load)
    stay = _iter_retained_rows(scan, exchange, names, _build_converter(columns))
    coming = filter_rows(rows.iter_batches(columns), exchange.added_rows)
    before = get_current_content(current)
    if scan.is_full_scan:
        outcome = _write_batches(load, columns, chain(stay, coming), None, lambda written: written, keeps_columns=True)
    else:
        after = None if before is None else before - exchange.removed_content + exchange.added_content
        gone = [scan.files[number].path for number in exchange.removed_rows]
        outcome = _write_batches(load, columns, chain(stay, coming), gone, lambda written: after)
    return replace(outcome, rows=exchange.added_content.count)


def _iter_retained_rows(
    scan: FileScan, exchange: UpsertChanges, names: Sequence[str], convert: Callable[[pa.RecordBatch], pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows that stay of files that are rewritten."""

    def rest(number: int, file: ScanFile) -> Iterator[pa.RecordBatch]:
        rows = (convert(batch) for batch in file.read(names))
        return filter_rows(rows, exchange.removed_rows[number], keep=False) if number in exchange.removed_rows else rows

    files = enumerate(scan.files)
    return chain.from_iterable(rest(n, file) for n, file in files if scan.is_full_scan or n in exchange.removed_rows)


def _build_converter(columns: Sequence[LoadedColumn]) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """What gives rows of the table the types that it will have."""
    kinds = {c.name: c.type for c in columns}
    return lambda batch: convert_batch(batch, [(name, name, kinds[name]) for name in batch.schema.names])


def _check_types(load: Load, table_columns: Sequence[LoadedColumn]) -> None:
    strange = next((c for c in table_columns if not c.is_of_spark), None)
    if strange is not None:
        raise SchemaRefused(
            f'column "{strange.name}" of {load.relation} has the type {strange.type}: without Spark its'
            " rows cannot be replaced",
            hint="let the loader return a Spark DataFrame",
        )


def _write_batches(
    load: Load,
    columns: Sequence[LoadedColumn],
    batches: Iterable[pa.RecordBatch],
    gone: Collection[str] | None,
    content: Content,
    keeps_columns: bool = False,
) -> NodeOutcome:
    """Write rows and publish them: as all rows, or with `gone` in the place of those in these files.

    `content` makes the table's content of that of the rows written; None when it is not known.
    """
    written = RowsContent()

    def summed() -> Iterator[pa.RecordBatch]:
        nonlocal written
        for batch in batches:
            written += compute_content([batch])
            yield batch

    with open_stage(load, columns, keeps_rows=gone is not None or keeps_columns) as (stage, _):
        load.lake.fill_batches(stage, summed())
        load.announce("written", load.node)
        return publish_stage(load, stage, written.count, content(written), gone)


def has_same_columns(columns: Sequence[LoadedColumn], table_columns: Sequence[LoadedColumn]) -> bool:
    """Whether a table has these columns, in this order."""
    return [(c.name, c.type) for c in columns] == [(c.name, c.type) for c in table_columns]


def get_current_content(current: TableState | None) -> RowsContent | None:
    """The content of a table's rows as this way of loading counts it; None when it is unknown."""
    if current is None or current.snapshot_columns != current.columns:
        return None
    if current.rows == 0:
        return RowsContent()
    return RowsContent.parse(current.identity.content)
