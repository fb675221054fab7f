"""The content of Arrow rows: equal for equal multisets, different for everything that is not the same."""

from __future__ import annotations

import math
import random
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sqb.lake.arrow.checksum import RowsContent, compute_content
from sqb.types.arrow import to_file_type
from sqb.types.parse import parse_type
from support.examples import count_examples

TYPES = {
    "i": "int",
    "n": "bigint",
    "f": "float",
    "d": "double",
    "b": "boolean",
    "c": "decimal(20,2)",
    "s": "string",
    "x": "binary",
    "day": "date",
    "at": "timestamp",
    "wall": "timestamp_ntz",
    "l": "array<bigint>",
    "ll": "array<array<string>>",
    "m": "map<string, bigint>",
    "st": "struct<a: bigint, b: string, c: array<decimal(5,1)>>",
}
SCHEMA = pa.schema([pa.field(n, to_file_type(kind)) for n, text in TYPES.items() if (kind := parse_type(text))])
_small = st.integers(-3, 3)
_text = st.text(alphabet="ab", max_size=2)
_decimal = st.integers(-30, 30).map(lambda n: Decimal(n).scaleb(-1))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": _small,
    "n": st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63)]),
    "f": st.sampled_from([0.0, -0.0, 1.5, math.inf, math.nan]),
    "d": st.sampled_from([0.0, -0.0, 1.5, -math.inf, math.nan, 0.1]),
    "b": st.booleans(),
    "c": st.sampled_from([Decimal("0.00"), Decimal("-1.50"), Decimal("123456789012345678.99")]),
    "s": st.sampled_from(["", "a", "b", "\0", "ä"]),
    "x": st.sampled_from([b"", b"a", b"\0"]),
    "day": st.sampled_from([date(1970, 1, 1), date(2026, 1, 1), date(1969, 12, 31)]),
    "at": st.sampled_from([datetime(1970, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC)]),
    "wall": st.sampled_from([datetime(1970, 1, 1), datetime(2026, 1, 1, 0, 0, 0, 1)]),
    "l": st.lists(st.none() | _small, max_size=3),
    "ll": st.lists(st.none() | st.lists(st.none() | _text, max_size=2), max_size=3),
    "m": st.dictionaries(_text, st.none() | _small, max_size=2).map(lambda d: list(d.items())),
    "st": st.fixed_dictionaries(
        {"a": st.none() | _small, "b": st.none() | _text, "c": st.none() | st.lists(_decimal, max_size=2)}
    ),
}
ROW = st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()})


def batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def canonical(value: Any) -> Any:
    """A value as it counts: every NaN is one, and -0.0 is not 0.0."""
    match value:
        case float():
            return "nan" if math.isnan(value) else value.hex()
        case {}:
            return tuple((k, canonical(v)) for k, v in value.items())
        case list():
            return ("list", *map(canonical, value))
        case _:
            return value


def multiset(rows: list[dict[str, Any]]) -> Counter[Any]:
    def plain(row: dict[str, Any]) -> Any:
        entries = frozenset(row["m"]) if row["m"] is not None else None
        return entries, *((name, canonical(value)) for name, value in row.items() if name != "m")

    return Counter(map(plain, rows))


@settings(max_examples=count_examples(40), deadline=None)
@given(st.lists(ROW, max_size=6), st.lists(ROW, max_size=6), st.randoms())
def test_contents_are_equal_when_multisets_are(one: list[Any], other: list[Any], chance: random.Random) -> None:
    mixed = [*one, *other]
    chance.shuffle(mixed)
    cut = chance.randint(0, len(mixed))
    whole = batch(mixed)
    assert compute_content([whole.slice(0, cut), whole.slice(cut)]) == compute_content([batch(one)]) + compute_content(
        [batch(other)]
    )
    assert (compute_content([batch(one)]) == compute_content([batch(other)])) == (multiset(one) == multiset(other))


def test_one_changed_value_is_another_content() -> None:
    row = {"i": 1, "s": "a", "l": [1, 2], "ll": [["a"], None], "m": [("a", 1), ("b", 2)], "st": {"a": 1, "b": None}}
    others: list[dict[str, Any]] = [
        {"i": None},
        {"s": ""},
        {"s": None},
        {"l": [2, 1]},
        {"l": [1, 2, None]},
        {"l": []},
        {"l": None},
        {"ll": [["a"], []]},
        {"ll": [None, ["a"]]},
        {"ll": [["a", None]]},
        {"m": [("a", 2), ("b", 1)]},
        {"st": {"a": None, "b": "1"}},
        {"st": {"a": None, "b": None}},
        {"st": None},
    ]
    items = [compute_content([batch([row | other])]) for other in ({}, *others)]
    assert len(set(items)) == len(items)
    assert compute_content([batch([row | {"m": [("b", 2), ("a", 1)]}])]) == items[0]


def test_columns_that_are_null_and_wider_types_change_nothing() -> None:
    narrow = pa.RecordBatch.from_pydict({"a": pa.array([1, None], pa.int32()), "f": pa.array([1.5, 0.1], pa.float32())})
    wide = pa.RecordBatch.from_pydict(
        {
            "new": pa.array([None, None], pa.large_string()),
            "f": narrow.column(1).cast(pa.float64()),
            "a": pa.array([1, None], pa.int64()),
        }
    )
    assert compute_content([narrow]) == compute_content([wide])
    small, large = (pa.array([Decimal("1.50"), None], pa.decimal128(p, 2)) for p in (5, 38))
    assert compute_content([pa.record_batch([small], ["d"])]) == compute_content([pa.record_batch([large], ["d"])])


def test_values_in_another_column_are_another_content() -> None:
    one, other = (
        pa.RecordBatch.from_pylist([row], pa.schema([("a", pa.int64()), ("b", pa.int64())]))
        for row in ({"a": 1, "b": 2}, {"a": 2, "b": 1})
    )
    assert compute_content([one]) != compute_content([other])


def test_the_text_of_a_content() -> None:
    content = compute_content([batch([{"i": 1}, {"i": 1}])])
    assert RowsContent.parse(str(content)) == content and content.count == 2
    assert content - content == RowsContent() and str(RowsContent()).startswith("a:0:")
    assert RowsContent.parse("n:1:0000000000000000:0000000000000000") is None and RowsContent.parse("") is None
    # What was written by an earlier version is read by a later one: this must never change.
    moments = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=i) for i in range(3)]
    known = batch([{"i": 7, "s": "ä", "c": Decimal("1.50"), "at": m, "l": [1, None]} for m in moments])
    assert str(compute_content([known])) == "a:3:baa6c02e8351786d:91ca87edf1fe7cb0"
