"""The content of rows in Arrow's form: how many they are, and two sums of hashes that no order can change.

A row's hash is made of a number for each of its values, which depends on the column's name and is nothing for a NULL.
So it does not depend on the order of columns, and a column that is NULL in every row changes no content, nor does a
wider type. Sums are modulo 2^64, so that contents can be added and subtracted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as at

_MODULUS = 1 << 64
_MARK = "a"
_U64 = pa.uint64()
Lanes = tuple[Any, Any]


@dataclass(frozen=True, slots=True)
class RowsContent:
    """A multiset of rows, summed up; equal multisets have equal contents."""

    count: int = 0
    sums: tuple[int, int] = (0, 0)

    def __add__(self, other: RowsContent) -> RowsContent:
        first, second = ((a + b) % _MODULUS for a, b in zip(self.sums, other.sums, strict=True))
        return RowsContent(self.count + other.count, (first, second))

    def __sub__(self, other: RowsContent) -> RowsContent:
        first, second = ((a - b) % _MODULUS for a, b in zip(self.sums, other.sums, strict=True))
        return RowsContent(self.count - other.count, (first, second))

    def __str__(self) -> str:
        return f"{_MARK}:{self.count}:{self.sums[0]:016x}:{self.sums[1]:016x}"

    @classmethod
    def parse(cls, text: str) -> RowsContent | None:
        """The content that `str` wrote; None when it is one of another kind."""
        mark, *parts = text.split(":")
        if mark != _MARK or len(parts) != 3:
            return None
        return cls(int(parts[0]), (int(parts[1], 16), int(parts[2], 16)))


def compute_content(batches: Iterable[pa.RecordBatch]) -> RowsContent:
    """The content of rows, however they are split into batches."""
    total = RowsContent()
    for batch in batches:
        if batch.num_rows:
            first, second = (pc.sum(lane).as_py() for lane in hash_rows(batch))
            total += RowsContent(batch.num_rows, (first, second))
    return total


def hash_rows(batch: pa.RecordBatch, is_key: bool = False) -> Lanes:
    """Two independent hashes of each row. As a key, 0.0 and -0.0 are one value, as they are for Spark."""
    return _hash_fields(batch.num_rows, zip(batch.schema.names, batch.columns, strict=True), is_key)


def _hash_fields(rows: int, fields: Iterable[tuple[str, pa.Array]], is_key: bool) -> Lanes:
    lanes = []
    field_hashes = [(name, _hash_values(values, is_key)) for name, values in fields]
    for lane in (0, 1):
        total = _repeat(_get_seed(lane), rows)
        for name, hashes in field_hashes:
            total = pc.add(total, _mix(pc.bit_wise_xor(hashes[0][lane], _compute_salt(name, lane)), hashes[1]))
        lanes.append(_mix(total))
    return lanes[0], lanes[1]


def _hash_values(values: pa.Array, is_key: bool) -> tuple[Lanes, Any]:
    """Two numbers for each value, and which values are there."""
    kind = values.type
    is_valid = values.is_valid() if values.null_count else None
    if at.is_struct(kind):
        return _hash_fields(len(values), zip(kind.names, values.flatten(), strict=True), is_key), is_valid
    if at.is_map(kind):
        pairs = pa.struct([pa.field("key", kind.key_type), pa.field("value", kind.item_type)])
        return _hash_items(values.cast(pa.large_list(pairs)), False, is_key), is_valid
    if at.is_large_list(kind):
        return _hash_items(values, True, is_key), is_valid
    if at.is_decimal(kind):
        low, high = _split_halves(values)
        return tuple(_mix(pc.add(_mix(pc.add(low, _get_seed(i))), high)) for i in (0, 1)), is_valid
    if at.is_large_string(kind) or at.is_large_binary(kind):
        return _hash_bytes(values), is_valid
    number = _convert_to_numbers(values, is_key)
    return (number, _mix(pc.add(number, _get_seed(1)))), is_valid


def _convert_to_numbers(values: pa.Array, is_key: bool) -> Any:
    """Values of a fixed size as numbers: every NaN is one value, and -0.0 is another than 0.0 if it is not in a key."""
    kind = values.type
    if at.is_floating(kind):
        wide = values.cast(pa.float64())
        wide = pc.add(wide, pa.scalar(0.0)) if is_key else wide
        plain = pc.if_else(pc.is_nan(wide), pa.scalar(float("nan")), wide)
        return pc.fill_null(plain.view(pa.int64()), 0).view(_U64)
    if at.is_boolean(kind):
        return pc.fill_null(values.cast(pa.uint8()), 0).cast(_U64)
    whole = values.cast(pa.int32()) if at.is_date(kind) else values
    return pc.fill_null(whole.cast(pa.int64()), 0).view(_U64)


def _hash_bytes(values: pa.Array) -> Lanes:
    """Texts by a digest of each, which is made once for equal ones."""
    encoded = pc.fill_null(values.cast(pa.large_binary()), b"").dictionary_encode()
    digests = b"".join([hashlib.sha256(value).digest()[:16] for value in encoded.dictionary.to_pylist()])
    low, high = _deinterleave(digests, len(encoded.dictionary))
    return low.take(encoded.indices), high.take(encoded.indices)


def _split_halves(values: pa.Array) -> Lanes:
    """The two halves of the number behind each decimal."""
    data = values.buffers()[1]
    start = values.offset * 16
    low, high = _deinterleave(data.slice(start, len(values) * 16), len(values))
    if values.null_count:
        is_valid = values.is_valid()
        return pc.if_else(is_valid, low, _build_zero()), pc.if_else(is_valid, high, _build_zero())
    return low, high


def _deinterleave(data: Any, count: int) -> Lanes:
    pairs = pa.Array.from_buffers(_U64, 2 * count, [None, pa.py_buffer(data)])
    evens = pc.multiply(_build_range(count), pa.scalar(2, _U64))
    return pairs.take(evens), pairs.take(pc.add(evens, pa.scalar(1, _U64)))


def _hash_items(values: pa.Array, ordered: bool, is_key: bool) -> Lanes:
    """Lists by the sums of their items' hashes, with the place of each where that matters."""
    items = values.flatten()
    sizes = pc.fill_null(pc.list_value_length(values), 0).cast(_U64)
    ends = pc.cumulative_sum(sizes)
    starts = pc.subtract(ends, sizes)
    hashes, is_valid = _hash_values(items, is_key)
    place = None
    if ordered:
        parents = pc.list_parent_indices(values)
        place = pc.add(pc.subtract(_build_range(len(items)), starts.take(parents)), pa.scalar(1, _U64))
    lanes = []
    for lane in (0, 1):
        # Zero is what nothing gives: a value must not.
        item_hashes = pc.add(_mix(pc.add(hashes[lane], _get_seed(lane)), is_valid), _get_seed(lane))
        item_hashes = _mix(item_hashes if place is None else pc.add(item_hashes, _mix(place)))
        sums = (
            pa.concat_arrays([pa.array([0], _U64), pc.cumulative_sum(item_hashes)])
            if len(items)
            else pa.array([0], _U64)
        )
        total = pc.subtract(sums.take(ends), sums.take(starts))
        lanes.append(_mix(pc.add(pc.add(total, _mix(sizes)), _get_seed(lane))))
    return lanes[0], lanes[1]


def _mix(numbers: Any, is_valid: Any = None) -> Any:
    """Numbers that are as if drawn at random, equal for equal ones; nothing where there is no value."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        shifted = pc.bit_wise_xor(numbers, pc.shift_right(numbers, pa.scalar(shift, _U64)))
        numbers = pc.multiply(shifted, pa.scalar(factor, _U64))
    mixed = pc.bit_wise_xor(numbers, pc.shift_right(numbers, pa.scalar(31, _U64)))
    return mixed if is_valid is None else pc.if_else(is_valid, mixed, _build_zero())


@lru_cache(maxsize=4096)
def _compute_salt(name: str, lane: int) -> Any:
    return pa.scalar(int.from_bytes(hashlib.sha256(f"{lane} {name}".encode()).digest()[:8]), _U64)


def _get_seed(lane: int) -> Any:
    return _compute_salt("", lane)


def _build_zero() -> Any:
    return pa.scalar(0, _U64)


@lru_cache(maxsize=4)
def _build_range(count: int) -> Any:
    return pa.array(range(count), _U64)


def _repeat(value: Any, count: int) -> Any:
    return pa.repeat(value, count)
