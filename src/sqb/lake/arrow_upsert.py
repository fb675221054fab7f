"""New rows against those that stand, by a key: which change something, and which rows have to go for them.

Keys and rows are compared by hashes of 128 bits, so that what is remembered of a row is small whatever it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as at

from sqb.errors import KeyViolation
from sqb.lake.arrow_content import RowsContent, row_hashes
from sqb.lake.arrow_types import arrow_type
from sqb.lake.port import HeldFile
from sqb.project.column_types import Type

_KEY = ["k0", "k1"]
_ROW = ["r0", "r1"]
_SHOWN = 5
_U64 = pa.uint64()
_HASHES = pa.schema([(name, _U64) for name in (*_KEY, *_ROW)] + [("row", pa.int64()), ("file", pa.int32())])

Convert = Callable[[pa.RecordBatch], pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class NewRows:
    """What is remembered of new rows: hashes of their keys and of themselves, and the keys."""

    hashes: pa.Table
    keys: pa.Table


@dataclass(frozen=True, slots=True)
class Exchange:
    """What an upsert does: new rows that come, by their number, and rows of files that go, by file and number."""

    coming: pa.Array
    came: RowsContent = RowsContent()
    going: dict[int, pa.Array] = field(default_factory=dict)
    went: RowsContent = RowsContent()


def keyed(batches: Iterable[pa.RecordBatch], key: Sequence[str], columns: Iterable[tuple[str, Type]]) -> NewRows:
    """What has to be known of new rows; refused when a key is NULL or is there more than once."""
    hashes, keys = [], []
    start = 0
    for batch in batches:
        hashes.append(_hashed(batch, key, start, -1))
        keys.append(batch.select(list(key)))
        start += batch.num_rows
    kinds = dict(columns)
    known = pa.schema([pa.field(name, arrow_type(kinds[name])) for name in key])
    found = NewRows(pa.Table.from_batches(hashes, _HASHES), pa.Table.from_batches(keys, known))
    _refuse_nulls(found.keys, key)
    _refuse_twice(found, key)
    return found


def _hashed(batch: pa.RecordBatch, key: Sequence[str], start: int, file: int) -> pa.RecordBatch:
    """The hashes of rows, with their numbers from `start` on."""
    rows = row_hashes(batch)
    numbers = pa.array(range(start, start + batch.num_rows), pa.int64())
    files = pa.repeat(pa.scalar(file, pa.int32()), batch.num_rows)
    return pa.RecordBatch.from_arrays([*key_hashes(batch, key), *rows, numbers, files], schema=_HASHES)


def key_hashes(batch: pa.RecordBatch, key: Sequence[str]) -> tuple[pa.Array, pa.Array]:
    """Two hashes of each row's key."""
    columns = [batch.column(name) for name in key]
    # Zero has two forms among floats, which are one key.
    plain = [pc.add(c, pa.scalar(0, c.type)) if at.is_floating(c.type) else c for c in columns]
    return row_hashes(pa.RecordBatch.from_arrays(plain, names=list(key)))


def _refuse_nulls(keys: pa.Table, key: Sequence[str]) -> None:
    missing = pc.is_null(keys.column(0))
    for column in keys.columns[1:]:
        missing = pc.or_(missing, pc.is_null(column))
    count = pc.sum(missing).as_py() or 0
    if count:
        shown = "; ".join(_shown(row) for row in keys.filter(missing).slice(0, _SHOWN).to_pylist())
        raise KeyViolation(
            f"{count} {'row has' if count == 1 else 'rows have'} NULL in the key {_said(key)}"
            + (f": {shown}" if len(key) > 1 else ""),
            hint="leave these rows out, or give the key a value",
        )


def _refuse_twice(new: NewRows, key: Sequence[str]) -> None:
    counted = new.hashes.group_by(_KEY).aggregate([("row", "count"), ("row", "min")])
    twice = counted.filter(pc.greater(counted.column("row_count"), 1))
    if not twice.num_rows:
        return
    worst = twice.sort_by([("row_count", "descending"), ("row_min", "ascending")]).slice(0, _SHOWN)
    rows = new.keys.take(worst.column("row_min")).to_pylist()
    times = worst.column("row_count").to_pylist()
    shown = "; ".join(f"{_shown(row)} ({n} rows)" for row, n in zip(rows, times, strict=True))
    more = f" and {twice.num_rows - _SHOWN} more" if twice.num_rows > _SHOWN else ""
    raise KeyViolation(
        f"the key {_said(key)} is not unique in the new rows: {shown}{more}",
        hint="hand over one row for each key, for instance the latest",
    )


def _said(key: Sequence[str]) -> str:
    return f"({', '.join(key)})" if len(key) > 1 else key[0]


def _shown(row: dict[str, object]) -> str:
    return ", ".join(f"{name} = {'NULL' if value is None else value}" for name, value in row.items())


def compare(
    new: NewRows, files: Sequence[HeldFile], key: Sequence[str], columns: Sequence[str], convert: Convert
) -> Exchange:
    """What has to come and to go so that the new rows stand; `columns` are the table's, with types by `convert`."""
    held = [_touched(new, file, number, key, columns, convert) for number, file in enumerate(files)]
    old = pa.concat_tables([_HASHES.empty_table(), *held])
    theirs = new.hashes.select([*_KEY, *_ROW]).rename_columns([*_KEY, "n0", "n1"])
    both = old.join(theirs, keys=_KEY, join_type="inner").combine_chunks()
    equal = pc.and_(pc.equal(both.column("r0"), both.column("n0")), pc.equal(both.column("r1"), both.column("n1")))
    judged = both.select(_KEY).append_column("equal", equal.cast(pa.int64()))
    counted = judged.group_by(_KEY).aggregate([("equal", "count"), ("equal", "sum")])
    # A key that has several rows in the table gets the one that is new.
    once = pc.and_(pc.equal(counted.column("equal_count"), 1), pc.equal(counted.column("equal_sum"), 1))
    same = counted.filter(once).select(_KEY)
    coming = new.hashes.join(same, keys=_KEY, join_type="left anti")
    going = old.join(same, keys=_KEY, join_type="left anti")
    rows = {
        number: going.filter(pc.equal(going.column("file"), number)).column("row").combine_chunks()
        for number in pc.unique(going.column("file")).to_pylist()
    }
    return Exchange(coming.column("row").combine_chunks(), _content(coming), rows, _content(going))


def _touched(
    new: NewRows, file: HeldFile, number: int, key: Sequence[str], columns: Sequence[str], convert: Convert
) -> pa.Table:
    """The hashes of a file's rows with keys that new rows have."""
    hashed = []
    start = 0
    for batch in file.read(key):
        lanes = key_hashes(convert(batch), key)
        numbers = pa.array(range(start, start + batch.num_rows), pa.int64())
        hashed.append(pa.RecordBatch.from_arrays([*lanes, numbers], names=[*_KEY, "row"]))
        start += batch.num_rows
    if not hashed:
        return _HASHES.empty_table()
    hit = pa.Table.from_batches(hashed).join(new.hashes.select(_KEY), keys=_KEY, join_type="inner")
    if not hit.num_rows:
        return _HASHES.empty_table()
    rows = hit.column("row").combine_chunks()
    found = [
        _hashed(convert(batch), key, at_row, number).filter(mine)
        for at_row, batch, mine in _marked(file.read(columns), rows)
    ]
    return pa.Table.from_batches(found, _HASHES)


def only(batches: Iterable[pa.RecordBatch], rows: pa.Array, keep: bool = True) -> Iterator[pa.RecordBatch]:
    """The rows with these numbers, or all others."""
    for _, batch, mine in _marked(batches, rows):
        yield batch.filter(mine if keep else pc.invert(mine))


def _marked(batches: Iterable[pa.RecordBatch], rows: pa.Array) -> Iterator[tuple[int, pa.RecordBatch, pa.Array]]:
    """Batches with the number of the first row of each, and which of their rows have these numbers."""
    last = pc.max(rows).as_py()
    marks = pc.is_in(pa.array(range(0 if last is None else last + 1), pa.int64()), value_set=rows)
    start = 0
    for batch in batches:
        mine = marks.slice(start, batch.num_rows)
        rest = pa.repeat(pa.scalar(False), batch.num_rows - len(mine))
        yield start, batch, pa.concat_arrays([mine, rest])
        start += batch.num_rows


def _content(hashes: pa.Table) -> RowsContent:
    first, second = (pc.sum(hashes.column(name)).as_py() or 0 for name in _ROW)
    return RowsContent(hashes.num_rows, (first, second))
