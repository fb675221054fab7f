"""Rows of a loader that are not Spark's: streamed from Arrow files into a stage, whatever the mode, without a JVM."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import pyarrow as pa

from sqb.build.load_columns import (
    LoadedColumn,
    columns_standing,
    declared_types,
    kept_columns,
    refuse_bad_names,
    replaced_columns,
    types_in_all,
)
from sqb.build.load_publish import Load, key_columns, nothing_to_make, publish, staged, unchanged
from sqb.build.turn import Outcome
from sqb.errors import SchemaRefused
from sqb.lake.arrow_content import RowsContent, content_of
from sqb.lake.arrow_files import batches_in, rows_in, schemas_in, types_of
from sqb.lake.arrow_upsert import Exchange, compare, keyed, only
from sqb.lake.arrow_values import converted
from sqb.lake.port import Held, HeldFile, TableState
from sqb.lake.row_types import shown_type
from sqb.project.column_types import Type

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

    def count(self) -> int:
        return rows_in(self.files)

    def batches(self, columns: Sequence[LoadedColumn]) -> Iterator[pa.RecordBatch]:
        return batches_in(self.files, [(c.written, c.name, c.type) for c in columns if c.is_of_spark])


def local_rows(load: Load, files: Sequence[Path]) -> LocalRows:
    """The rows that a loader left in files; refused where no table could have their columns."""
    declared = declared_types(load.columns, load.at)
    schemas = schemas_in(files)
    for schema in schemas:
        refuse_bad_names([name for name, _ in schema], load.at)
    return LocalRows(tuple(files), types_in_all(map(types_of, schemas), declared, load.at), declared)


def replace_rows(load: Load, rows: LocalRows) -> Outcome:
    """Make the new rows all rows, unless they are those that stand."""
    there = columns_standing(load.standing)
    if not rows.has_columns and load.standing is None:
        return nothing_to_make(load)
    columns = replaced_columns(rows.types, rows.declared, there) if rows.has_columns else there
    before = content_that_stands(load.standing)
    comparable = before is not None and same_columns(columns, there) and before.count == rows.count()
    if comparable and content_of(rows.batches(columns)) == before:
        return unchanged(load)
    return _write(load, columns, rows.batches(columns), None, lambda written: written, not rows.has_columns)


def append_rows(load: Load, rows: LocalRows) -> Outcome:
    """Add the new rows to those that stand."""
    if load.standing is None:
        return replace_rows(load, rows)
    if not rows.count():
        return unchanged(load)
    columns = kept_columns(rows.types, rows.declared, columns_standing(load.standing), load.at)
    return _add(load, columns, rows)


def _add(load: Load, columns: Sequence[LoadedColumn], rows: LocalRows) -> Outcome:
    before = content_that_stands(load.standing) if load.standing is not None else RowsContent()
    return _write(
        load, columns, rows.batches(columns), (), lambda written: None if before is None else before + written
    )


def upsert_rows(load: Load, rows: LocalRows) -> Outcome:
    """Put each new row in the place of the rows with its key, or beside all others; rows that stand change nothing."""
    standing, there = load.standing, columns_standing(load.standing)
    if standing is None and not rows.has_columns:
        return nothing_to_make(load)
    if standing is not None and not rows.count():
        return unchanged(load)
    columns = kept_columns(rows.types, rows.declared, there, load.at)
    key = key_columns(load, [c.name for c in columns if c.written or not rows.types])
    new = keyed(rows.batches(columns), key, [(c.name, c.type) for c in columns])
    if standing is None or standing.rows == 0 or not set(key) <= {c.name for c in there}:
        return _add(load, columns, rows)
    _refuse_strange_types(load, there)
    held = load.lake.held_near(load.relation, standing.base, new.keys)
    names = [c.name for c in there]
    exchange = compare(new, held.files, key, names, _converting(columns))
    if not len(exchange.coming):
        return unchanged(load)
    stay = _staying(held, exchange, names, _converting(columns))
    coming = only(rows.batches(columns), exchange.coming)
    before = content_that_stands(standing)
    if held.whole:
        outcome = _write(load, columns, chain(stay, coming), None, lambda written: written, keeps_columns=True)
    else:
        after = None if before is None else before - exchange.went + exchange.came
        gone = [held.files[number].path for number in exchange.going]
        outcome = _write(load, columns, chain(stay, coming), gone, lambda written: after)
    return replace(outcome, rows=exchange.came.count)


def _staying(
    held: Held, exchange: Exchange, names: Sequence[str], convert: Callable[[pa.RecordBatch], pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows that stay of files that are rewritten."""

    def rest(number: int, file: HeldFile) -> Iterator[pa.RecordBatch]:
        rows = (convert(batch) for batch in file.read(names))
        return only(rows, exchange.going[number], keep=False) if number in exchange.going else rows

    files = enumerate(held.files)
    return chain.from_iterable(rest(n, file) for n, file in files if held.whole or n in exchange.going)


def _converting(columns: Sequence[LoadedColumn]) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """What gives rows of the table the types that it will have."""
    kinds = {c.name: c.type for c in columns}
    return lambda batch: converted(batch, [(name, name, kinds[name]) for name in batch.schema.names])


def _refuse_strange_types(load: Load, there: Sequence[LoadedColumn]) -> None:
    strange = next((c for c in there if not c.is_of_spark), None)
    if strange is not None:
        raise SchemaRefused(
            f'column "{strange.name}" of {load.relation} has the type {shown_type(strange.type)}: without Spark its'
            " rows cannot be replaced",
            hint="let the loader return a Spark DataFrame",
        )


def _write(
    load: Load,
    columns: Sequence[LoadedColumn],
    batches: Iterable[pa.RecordBatch],
    gone: Collection[str] | None,
    content: Content,
    keeps_columns: bool = False,
) -> Outcome:
    """Write rows and publish them: as all rows, or with `gone` in the place of those in these files.

    `content` makes the table's content of that of the rows written; None when it is not known.
    """
    written = RowsContent()

    def summed() -> Iterator[pa.RecordBatch]:
        nonlocal written
        for batch in batches:
            written += content_of([batch])
            yield batch

    with staged(load, columns, keeps_rows=gone is not None or keeps_columns) as (stage, _):
        load.lake.fill_batches(stage, summed())
        load.announce("written", load.node)
        return publish(load, stage, written.count, content(written), gone)


def same_columns(columns: Sequence[LoadedColumn], there: Sequence[LoadedColumn]) -> bool:
    """Whether a table has these columns, in this order."""
    return [(c.name, c.type) for c in columns] == [(c.name, c.type) for c in there]


def content_that_stands(standing: TableState | None) -> RowsContent | None:
    """The content of a table's rows as this way of loading counts it; None when nobody knows it."""
    if standing is None or standing.snapshot_columns != standing.columns:
        return None
    if standing.rows == 0:
        return RowsContent()
    return RowsContent.parse(standing.identity.get("sqb.content", ""))
