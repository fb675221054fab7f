"""New rows against the current rows of a table, by a key: which rows are added and which are removed.

Keys and rows are compared by hashes of 128 bits, so that what is remembered of a row is small whatever it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from sqb.errors.build import KeyViolation
from sqb.lake.arrow.checksum import RowsContent, hash_rows
from sqb.lake.port import ScanFile
from sqb.types.arrow import to_file_type
from sqb.types.model import Type

_KEY = ["k0", "k1"]
_ROW = ["r0", "r1"]
_MAX_EXAMPLES = 5
_U64 = pa.uint64()
_HASHES = pa.schema([(name, _U64) for name in (*_KEY, *_ROW)] + [("row", pa.int64()), ("file", pa.int32())])

Convert = Callable[[pa.RecordBatch], pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class NewRows:
    """New rows as hashes of their keys and of the rows, with the keys."""

    hashes: pa.Table
    keys: pa.Table


@dataclass(frozen=True, slots=True)
class UpsertChanges:
    """What an upsert does: new rows to add, by number, and rows of files to remove, by file and number."""

    added_rows: pa.Array
    added_content: RowsContent = RowsContent()
    removed_rows: dict[int, pa.Array] = field(default_factory=dict)
    removed_content: RowsContent = RowsContent()


def hash_new_rows(
    batches: Iterable[pa.RecordBatch], key: Sequence[str], columns: Iterable[tuple[str, Type]]
) -> NewRows:
    """Hash new rows and their keys; refused when a key is NULL or is there more than once."""
    hashes, keys = [], []
    start = 0
    for batch in batches:
        hashes.append(_hash_batch(batch, key, start, -1))
        keys.append(batch.select(list(key)))
        start += batch.num_rows
    kinds = dict(columns)
    key_schema = pa.schema([pa.field(name, to_file_type(kinds[name])) for name in key])
    new = NewRows(pa.Table.from_batches(hashes, _HASHES), pa.Table.from_batches(keys, key_schema))
    _refuse_nulls(new.keys, key)
    _refuse_duplicates(new, key)
    return new


def _hash_batch(batch: pa.RecordBatch, key: Sequence[str], start: int, file: int) -> pa.RecordBatch:
    """The hashes of rows, with their numbers from `start` on."""
    rows = hash_rows(batch)
    numbers = pa.array(range(start, start + batch.num_rows), pa.int64())
    files = pa.repeat(pa.scalar(file, pa.int32()), batch.num_rows)
    return pa.RecordBatch.from_arrays([*hash_keys(batch, key), *rows, numbers, files], schema=_HASHES)


def hash_keys(batch: pa.RecordBatch, key: Sequence[str]) -> tuple[pa.Array, pa.Array]:
    """Two hashes of each row's key."""
    return hash_rows(batch.select(list(key)), is_key=True)


def _refuse_nulls(keys: pa.Table, key: Sequence[str]) -> None:
    missing = pc.is_null(keys.column(0))
    for column in keys.columns[1:]:
        missing = pc.or_(missing, pc.is_null(column))
    count = pc.sum(missing).as_py() or 0
    if count:
        examples = "; ".join(_format_row(row) for row in keys.filter(missing).slice(0, _MAX_EXAMPLES).to_pylist())
        raise KeyViolation(
            f"{count} {'row has' if count == 1 else 'rows have'} NULL in the key {_format_key(key)}"
            + (f": {examples}" if len(key) > 1 else ""),
            hint="leave these rows out, or give the key a value",
        )


def _refuse_duplicates(new: NewRows, key: Sequence[str]) -> None:
    counted = new.hashes.group_by(_KEY).aggregate([("row", "count"), ("row", "min")])
    duplicates = counted.filter(pc.greater(counted.column("row_count"), 1))
    if not duplicates.num_rows:
        return
    worst = duplicates.sort_by([("row_count", "descending"), ("row_min", "ascending")]).slice(0, _MAX_EXAMPLES)
    rows = new.keys.take(worst.column("row_min")).to_pylist()
    times = worst.column("row_count").to_pylist()
    examples = "; ".join(f"{_format_row(row)} ({n} rows)" for row, n in zip(rows, times, strict=True))
    more = f" and {duplicates.num_rows - _MAX_EXAMPLES} more" if duplicates.num_rows > _MAX_EXAMPLES else ""
    raise KeyViolation(
        f"the key {_format_key(key)} is not unique in the new rows: {examples}{more}",
        hint="return one row for each key, for instance the latest",
    )


def _format_key(key: Sequence[str]) -> str:
    return f"({', '.join(key)})" if len(key) > 1 else key[0]


def _format_row(row: dict[str, object]) -> str:
    return ", ".join(f"{name} = {'NULL' if value is None else value}" for name, value in row.items())


def compare_rows(
    new: NewRows, files: Sequence[ScanFile], key: Sequence[str], columns: Sequence[str], convert: Convert
) -> UpsertChanges:
    """Compute the rows to add and to remove for the new rows; `columns` are the table's, with types by `convert`."""
    touched = [_hash_matching_rows(new, file, number, key, columns, convert) for number, file in enumerate(files)]
    old = pa.concat_tables([_HASHES.empty_table(), *touched])
    new_hashes = new.hashes.select([*_KEY, *_ROW]).rename_columns([*_KEY, "n0", "n1"])
    both = old.join(new_hashes, keys=_KEY, join_type="inner").combine_chunks()
    equal = pc.and_(pc.equal(both.column("r0"), both.column("n0")), pc.equal(both.column("r1"), both.column("n1")))
    comparison = both.select(_KEY).append_column("equal", equal.cast(pa.int64()))
    counted = comparison.group_by(_KEY).aggregate([("equal", "count"), ("equal", "sum")])
    # A key that has several rows in the table gets the one that is new.
    once = pc.and_(pc.equal(counted.column("equal_count"), 1), pc.equal(counted.column("equal_sum"), 1))
    same = counted.filter(once).select(_KEY)
    added = new.hashes.join(same, keys=_KEY, join_type="left anti")
    removed = old.join(same, keys=_KEY, join_type="left anti")
    rows = {
        number: removed.filter(pc.equal(removed.column("file"), number)).column("row").combine_chunks()
        for number in pc.unique(removed.column("file")).to_pylist()
    }
    return UpsertChanges(added.column("row").combine_chunks(), _sum_content(added), rows, _sum_content(removed))


def _hash_matching_rows(
    new: NewRows, file: ScanFile, number: int, key: Sequence[str], columns: Sequence[str], convert: Convert
) -> pa.Table:
    """The hashes of a file's rows with keys that new rows have."""
    hashed = []
    start = 0
    for batch in file.read(key):
        lanes = hash_keys(convert(batch), key)
        numbers = pa.array(range(start, start + batch.num_rows), pa.int64())
        hashed.append(pa.RecordBatch.from_arrays([*lanes, numbers], names=[*_KEY, "row"]))
        start += batch.num_rows
    if not hashed:
        return _HASHES.empty_table()
    matches = pa.Table.from_batches(hashed).join(new.hashes.select(_KEY), keys=_KEY, join_type="inner")
    if not matches.num_rows:
        return _HASHES.empty_table()
    rows = matches.column("row").combine_chunks()
    batches = [
        _hash_batch(convert(batch), key, at_row, number).filter(mask)
        for at_row, batch, mask in _mark_rows(file.read(columns), rows)
    ]
    return pa.Table.from_batches(batches, _HASHES)


def filter_rows(batches: Iterable[pa.RecordBatch], rows: pa.Array, keep: bool = True) -> Iterator[pa.RecordBatch]:
    """The rows with these numbers, or all others."""
    for _, batch, mask in _mark_rows(batches, rows):
        yield batch.filter(mask if keep else pc.invert(mask))


def _mark_rows(batches: Iterable[pa.RecordBatch], rows: pa.Array) -> Iterator[tuple[int, pa.RecordBatch, pa.Array]]:
    """Batches with the number of the first row of each, and which of their rows have these numbers."""
    last = pc.max(rows).as_py()
    marks = pc.is_in(pa.array(range(0 if last is None else last + 1), pa.int64()), value_set=rows)
    start = 0
    for batch in batches:
        mask = marks.slice(start, batch.num_rows)
        rest = pa.repeat(pa.scalar(False), batch.num_rows - len(mask))
        yield start, batch, pa.concat_arrays([mask, rest])
        start += batch.num_rows


def _sum_content(hashes: pa.Table) -> RowsContent:
    first, second = (pc.sum(hashes.column(name)).as_py() or 0 for name in _ROW)
    return RowsContent(hashes.num_rows, (first, second))
