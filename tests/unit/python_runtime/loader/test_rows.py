"""What loaders give becomes files with one schema: types of all rows, declared types, and refusals that name rows."""

from __future__ import annotations

import csv
import sqlite3
import subprocess
import sys
from collections import namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqb.errors.python import BadData
from sqb.python_runtime.loader import rows as data_module
from sqb.python_runtime.loader.arrays import build_array
from sqb.python_runtime.loader.rows import LoaderOutput
from sqb.types.arrow import to_arrow_type
from sqb.types.model import STRING, ArrayType, Field, MapType, StructType, Type
from sqb.types.parse import parse_type
from support.examples import count_examples

NOON = datetime(2026, 1, 2, 12)
ZONED = datetime(2026, 1, 2, 12, tzinfo=timezone(timedelta(hours=2)))
Point = namedtuple("Point", "x y")


@dataclass
class Order:
    id: int
    note: str | None = None


def loaded(folder: Path, *written: Any, columns: dict[str, str] | None = None) -> pa.Table | None:
    data = LoaderOutput(folder, columns)
    for value in written:
        data.write(value)
    files = data.finish()
    tables = [pa.ipc.open_stream(file).read_all() for file in files]
    assert len({table.schema for table in tables}) <= 1
    return pa.concat_tables(tables) if tables else None


def types(table: pa.Table) -> dict[str, str]:
    return {field.name: str(field.type) for field in table.schema}


# --- inference ------------------------------------------------------------------------------------------------------

COLUMNS: dict[str, tuple[list[Any], str, list[Any]]] = {
    "whole numbers": ([1, None, 2], "int64", [1, None, 2]),
    "numbers": ([None, 1, 2.5], "double", [None, 1.0, 2.5]),
    "not a number": ([1.0, float("inf")], "double", [1.0, float("inf")]),
    "booleans": ([True, None], "bool", [True, None]),
    "texts": (["a", ""], "string", ["a", ""]),
    "bytes": ([b"a", bytearray(b"b"), memoryview(b"c")], "binary", [b"a", b"b", b"c"]),
    "dates": ([date(2026, 1, 2)], "date32[day]", [date(2026, 1, 2)]),
    "times": ([NOON], "timestamp[us]", [NOON]),
    "times with a zone": ([ZONED], "timestamp[us, tz=UTC]", [ZONED.astimezone(UTC)]),
    "decimals": (
        [Decimal("1.5"), Decimal("-120"), Decimal("0.001")],
        "decimal128(6, 3)",
        [Decimal("1.500"), Decimal("-120.000"), Decimal("0.001")],
    ),
    "decimals and whole numbers": ([1, Decimal("0.5")], "decimal128(20, 1)", [Decimal("1.0"), Decimal("0.5")]),
    "large decimals": ([Decimal("1E+3")], "decimal128(4, 0)", [Decimal(1000)]),
    "decimals and floats": ([Decimal("0.1"), 1.5, 2], "double", [0.1, 1.5, 2.0]),
    "identifiers": ([UUID(int=1)], "string", ["00000000-0000-0000-0000-000000000001"]),
    "nothing": ([None, None], "null", [None, None]),
    "lists": ([[1], None, [], [2.5, None]], "list<item: double>", [[1.0], None, [], [2.5, None]]),
    "tuples": ([(1, 2)], "list<item: int64>", [[1, 2]]),
    "named tuples": ([Point(1, "a")], "struct<x: int64, y: string>", [{"x": 1, "y": "a"}]),
    "mappings": (
        [{"a": 1}, None, {"b": ["x"], "a": 0.5}],
        "struct<a: double, b: list<item: string>>",
        [{"a": 1.0, "b": None}, None, {"a": 0.5, "b": ["x"]}],
    ),
    "mappings in another case": (
        [{"a": 1}, {"A": 2.5, "b": None}, {"B": 1, "a": None}],
        "struct<a: double, b: int64>",
        [{"a": 1.0, "b": None}, {"a": 2.5, "b": None}, {"a": None, "b": 1}],
    ),
    "lists of decimals and floats": ([[Decimal("0.1")], [1.5]], "list<item: double>", [[0.1], [1.5]]),
    "lists of mappings": (
        [[{"a": 1}, {"b": True}]],
        "list<item: struct<a: int64, b: bool>>",
        [[{"a": 1, "b": None}, {"a": None, "b": True}]],
    ),
}


@pytest.mark.parametrize("piece", [1, 2, 1000])
@pytest.mark.parametrize("case", COLUMNS)
def test_the_type_of_a_column_holds_the_values_of_all_rows(
    tmp_path: Path, case: str, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_module, "_MAX_BUFFERED_ROWS", piece)
    values, kind, expected = COLUMNS[case]
    table = loaded(tmp_path, [{"c": value} for value in values])
    assert table is not None
    assert types(table) == {"c": kind}
    assert table.column("c").to_pylist() == expected


def test_missing_keys_are_null_whenever_a_column_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_module, "_MAX_BUFFERED_ROWS", 1)
    table = loaded(tmp_path, [{"a": 1}, {"b": "x"}, {"c": None, "a": 2}])
    assert table is not None
    assert table.to_pylist() == [
        {"a": 1, "b": None, "c": None},
        {"a": None, "b": "x", "c": None},
        {"a": 2, "b": None, "c": None},
    ]
    assert [f.name for f in tmp_path.iterdir()] != []


def pages() -> Any:
    yield [{"id": 1}, {"id": 2}]
    yield {"id": 3}
    yield pa.table({"id": pa.array([4], pa.int16())})
    yield []
    yield Order(5, "x")


def test_rows_come_in_many_forms(tmp_path: Path) -> None:
    table = loaded(tmp_path, pages(), {"id": 6}, None, (Order(7) for _ in range(1)), [Point(1, 2)], {"id": 8}.copy())
    assert table is not None
    assert table.column("id").to_pylist() == [1, 2, 3, 4, 5, 6, 7, None, 8]
    assert table.column("note").to_pylist() == [None, None, None, None, "x", None, None, None, None]
    assert types(table) == {"id": "int64", "note": "string", "x": "int64", "y": "int64"}


def one_dict_for_all_rows() -> Any:
    row = {}
    for number in range(3):
        row["id"] = number
        yield row


def test_rows_are_taken_as_they_are_when_they_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_module, "_MAX_BUFFERED_BYTES", 10)
    database = sqlite3.connect(":memory:")
    database.row_factory = sqlite3.Row
    rows = database.execute("SELECT 3 AS id, 'a longer text' AS name UNION SELECT 4, NULL")
    table = loaded(tmp_path, one_dict_for_all_rows(), rows)
    assert table is not None
    assert table.column("id").to_pylist() == [0, 1, 2, 3, 4]
    assert table.column("name").to_pylist() == [None, None, None, "a longer text", None]


def test_tuples_have_the_declared_columns(tmp_path: Path) -> None:
    columns = {"id": "int", "name": "string"}
    table = loaded(tmp_path, [(1, "a"), [2, None]], [[[3, "c"]]], csv.reader(["4,d"]), columns=columns)
    assert table is not None
    assert table.to_pylist() == [
        {"id": 1, "name": "a"},
        {"id": 2, "name": None},
        {"id": 3, "name": "c"},
        {"id": 4, "name": "d"},
    ]
    assert types(table) == {"id": "int32", "name": "string"}


def test_no_rows_are_something_else_than_nothing(tmp_path: Path) -> None:
    assert loaded(tmp_path) is None
    assert loaded(tmp_path, None) is None
    assert loaded(tmp_path, iter(())) is None
    empty = loaded(tmp_path, [])
    assert empty is not None and (empty.num_rows, empty.num_columns) == (0, 0)
    empty = loaded(tmp_path, iter([[]]), columns={"id": "bigint"})
    assert empty is not None and types(empty) == {"id": "int64"}
    empty = loaded(tmp_path, pa.table({"id": pa.array([], pa.int32())}))
    assert empty is not None and (empty.num_rows, types(empty)) == (0, {"id": "int32"})


def test_tables_of_arrow_are_taken_as_they_are(tmp_path: Path) -> None:
    table = pa.table(
        {
            "small": pa.array([1, None], pa.uint8()),
            "large": pa.array([2**63, 1], pa.uint64()),
            "word": pa.array(["a", "b"]).dictionary_encode(),
            "long": pa.array(["a", "b"], pa.large_string()),
            "when": pa.array([NOON, None], pa.timestamp("ms")),
            "zoned": pa.array([ZONED, None], pa.timestamp("ns", tz="Europe/Berlin")),
            "map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int32())),
            "items": pa.array([[1], [2]], pa.large_list(pa.int8())),
            "uuid": pa.array([UUID(int=1).bytes, None], pa.uuid()),
        }
    )
    result = loaded(tmp_path, table, table.to_batches()[0], table.to_reader())
    assert result is not None
    assert result.num_rows == 6
    assert types(result) == {
        "small": "int16",
        "large": "decimal128(20, 0)",
        "word": "string",
        "long": "string",
        "when": "timestamp[us]",
        "zoned": "timestamp[us, tz=UTC]",
        "map": "map<string, int32>",
        "items": "list<item: int8>",
        "uuid": "string",
    }
    assert result.slice(0, 2).to_pylist()[0] == {
        "small": 1,
        "large": Decimal(2**63),
        "word": "a",
        "long": "a",
        "when": NOON,
        "zoned": ZONED.astimezone(UTC),
        "map": [("a", 1)],
        "items": [1],
        "uuid": str(UUID(int=1)),
    }


def test_anything_that_speaks_arrow_is_a_table(tmp_path: Path) -> None:
    class Frame:
        def __arrow_c_stream__(self, schema: Any = None) -> Any:
            return pa.table({"a": [1, 2]}).__arrow_c_stream__(schema)

    table = loaded(tmp_path, Frame(), pa.table({"a": [0.5], "b": ["x"]}))
    assert table is not None
    assert table.to_pylist() == [{"a": 1.0, "b": None}, {"a": 2.0, "b": None}, {"a": 0.5, "b": "x"}]


def test_frames_of_pandas(tmp_path: Path) -> None:
    import pandas as pd

    frame = pd.DataFrame({"id": [1, 2], "v": [0.5, None], "when": pd.to_datetime(["2026-01-02 12:00", None])})
    named = pd.DataFrame({"v": [1.5]}, index=pd.Index([3], name="id"))
    table = loaded(tmp_path, [frame, named], [{"id": pd.NA, "v": 2, "when": pd.NaT}, {"when": pd.Timestamp(NOON)}])
    assert table is not None
    assert types(table) == {"id": "int64", "v": "double", "when": "timestamp[us]"}
    assert table.to_pylist() == [
        {"id": 1, "v": 0.5, "when": NOON},
        {"id": 2, "v": None, "when": None},
        {"id": 3, "v": 1.5, "when": None},
        {"id": None, "v": 2.0, "when": None},
        {"id": None, "v": None, "when": NOON},
    ]
    with pytest.raises(BadData, match=r"the pandas DataFrame makes no table: .*column mixed"):
        loaded(tmp_path, pd.DataFrame({"mixed": [1, "a"]}))
    with pytest.raises(BadData, match="two columns are called"):
        loaded(tmp_path, pd.DataFrame([[1, 2]], columns=["a", "A"]))


def test_numbers_of_numpy(tmp_path: Path) -> None:
    import numpy as np

    table = loaded(tmp_path, [{"a": np.int32(1), "b": np.float64("nan"), "c": np.array([1, 2])}, {"a": 2, "b": 0.5}])
    assert table is not None
    assert types(table) == {"a": "int64", "b": "double", "c": "list<item: int64>"}


SIMPLE = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-128, 127),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(allow_nan=False),
    "string": st.text(),
    "binary": st.binary(),
    "date": st.dates(),
    "timestamp_ntz": st.datetimes(),
    "decimal(38,4)": st.decimals(-(10**30), 10**30, places=4),
}
KINDS = st.recursive(
    st.sampled_from([kind for text in SIMPLE if (kind := parse_type(text))]),
    lambda inner: st.one_of(
        inner.map(ArrayType),
        inner.map(lambda part: MapType(STRING, part)),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda parts: StructType(tuple(Field(f"f{i}", part) for i, part in enumerate(parts)))
        ),
    ),
    max_leaves=4,
)


def values_of(kind: Type) -> st.SearchStrategy[Any]:
    result: st.SearchStrategy[Any]
    match kind:
        case ArrayType(element):
            result = st.lists(values_of(element), max_size=3)
        case MapType(key, item):
            pairs = st.dictionaries(SIMPLE[str(key)], values_of(item), max_size=3)
            result = pairs.map(lambda pairs: list(pairs.items()))
        case StructType(fields):
            result = st.fixed_dictionaries({f.name: values_of(f.type) for f in fields})
        case _:
            result = SIMPLE[str(kind)]
    return st.none() | result


@settings(max_examples=count_examples(30))
@given(st.data())
def test_columns_are_those_that_arrow_makes(drawn: st.DataObject) -> None:
    kind = drawn.draw(KINDS)
    values = drawn.draw(st.lists(values_of(kind), max_size=20))
    array = build_array(kind, values)
    array.validate(full=True)
    assert array.equals(pa.array(values, type=to_arrow_type(kind)))


# --- declared types -------------------------------------------------------------------------------------------------

DECLARED: dict[str, tuple[str, list[Any], list[Any]]] = {
    "numbers from texts": ("bigint", ["12", " -3 ", 4, 5.0, Decimal(6)], [12, -3, 4, 5, 6]),
    "decimals": (
        "decimal(10,2)",
        ["1.5", 2, 0.25, Decimal("3.10")],
        [Decimal("1.50"), Decimal("2.00"), Decimal("0.25"), Decimal("3.10")],
    ),
    "floats": ("double", ["1e3", 2, Decimal("0.5"), "NaN"], [1000.0, 2.0, 0.5]),
    "booleans": ("boolean", ["true", False, "0"], [True, False, False]),
    "dates": ("date", ["2026-01-02", NOON.date(), datetime(2026, 1, 2)], [date(2026, 1, 2)] * 3),
    "times": (
        "timestamp",
        ["2026-01-02T12:00:00Z", "2026-01-02 14:00:00+02:00", NOON, date(2026, 1, 2)],
        [
            NOON.replace(tzinfo=UTC),
            NOON.replace(tzinfo=UTC),
            NOON.replace(tzinfo=UTC),
            datetime(2026, 1, 2, tzinfo=UTC),
        ],
    ),
    "times without a zone": ("timestamp_ntz", ["2026-01-02T12:00", NOON], [NOON, NOON]),
    "texts of anything": (
        "string",
        [1, True, "a", {"x": [1, None]}, [1], date(2026, 1, 2), None],
        ["1", "true", "a", '{"x": [1, null]}', "[1]", "2026-01-02", None],
    ),
    "bytes": ("binary", ["ü", b"x"], ["ü".encode(), b"x"]),
    "lists": ("array<decimal(4,1)>", [["1.5", None], [], None], [[Decimal("1.5"), None], [], None]),
    "maps": ("map<string, int>", [{"a": "1"}, {}], [[("a", 1)], []]),
    "mappings": ("struct<a: int, b: string>", [{"a": "1"}, {"b": 2}], [{"a": 1, "b": None}, {"a": None, "b": "2"}]),
}


@pytest.mark.parametrize("case", DECLARED)
def test_declared_types_take_what_means_one_of_their_values(tmp_path: Path, case: str) -> None:
    kind, values, expected = DECLARED[case]
    table = loaded(tmp_path, [{"c": value} for value in values], columns={"c": kind})
    assert table is not None
    pylist = table.column("c").to_pylist()
    assert [value for value in pylist if value == value] == expected


def test_declared_columns_come_first_and_are_always_there(tmp_path: Path) -> None:
    table = loaded(tmp_path, pa.table({"b": ["x"], "a": ["7"]}), columns={"a": "bigint", "z": "date"})
    assert table is not None
    assert table.to_pylist() == [{"a": 7, "z": None, "b": "x"}]


# --- refusals -------------------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[Any, dict[str, str] | None, str, str | None]] = {
    "mixed": (
        [{"a": None}, {"a": 1}, {"a": 2}, {"a": "x"}],
        None,
        'column "a" is bigint in row 2 and string in row 4',
        'give all rows one type, or say which: columns={"a": "string"}',
    ),
    "booleans and numbers": (
        [{"a": True}, {"a": 1}],
        None,
        'column "a" is boolean in row 1 and bigint in row 2',
        'give all rows one type, or say which: columns={"a": "string"}',
    ),
    "with and without a zone": (
        [{"a": NOON}, {"a": ZONED}],
        None,
        'column "a" is timestamp_ntz in row 1 and timestamp in row 2',
        'give all rows one type, or say which: columns={"a": "string"}',
    ),
    "nested": (
        [{"a": {"b": 1}}, {"a": {"b": "x"}}],
        None,
        'column "a" is struct<b:bigint> in row 1 and struct<b:string> in row 2',
        'give all rows one type, or say which: columns={"a": "string"}',
    ),
    "in a list": (
        [{"a": [1, "x"]}],
        None,
        'column "a" in row 1: a list holds bigint and string',
        "give all of its items one type",
    ),
    "too large": (
        [{"a": 1}, {"a": 2**70}],
        None,
        f'column "a" in row 2: {2**70} is not a valid bigint: it is too large',
        'give all rows one type, or say which: columns={"a": "decimal(38,0)"}',
    ),
    "too exact": (
        [{"a": 2**53 + 1}, {"a": 0.5}],
        None,
        'column "a" in row 1: 9007199254740993 is not a valid double: it has too many digits',
        'give all rows one type, or say which: columns={"a": "string"}',
    ),
    "a decimal that is too exact": (
        [{"a": Decimal("0.12345678901234567890")}, {"a": 0.5}],
        None,
        "column \"a\" in row 1: Decimal('0.12345678901234567890') is not a valid double: it has too many digits",
        'give all rows one type, or say which: columns={"a": "string"}',
    ),
    "too many digits": (
        [{"a": Decimal(10) ** 15}, {"a": Decimal("1E-30")}],
        None,
        "column \"a\" in row 1: Decimal('1000000000000000') is not a valid decimal(38,30): it has too many digits",
        'give all rows one type, or say which: columns={"a": "string"}',
    ),
    "keys in both cases": (
        [{"a": {"b": 1, "B": 2}}],
        None,
        "column \"a\" in row 1: a mapping has two keys that differ only in case: 'b', 'B'",
        "names of fields that differ only in case are the same",
    ),
    "no type": (
        [{"a": {1, 2}}],
        None,
        'column "a" in row 1: set is not a type that a column can have',
        "write it as a list: sorted(…)",
    ),
    "keys": (
        [{"a": {1: 2}}],
        None,
        'column "a" in row 1: a mapping has the key 1, and fields have texts as names',
        'a map needs its type: columns={"…": "map<int, string>"}',
    ),
    "a name": ([{1: 2}], None, "1 is not a column name", "names of columns are texts"),
    "names": (
        [{"id": 1}, {"ID": 2}],
        None,
        'two columns are called "id" and "ID"',
        "names that differ only in case are the same",
    ),
    "no columns": ([{}], None, "the rows have no columns", None),
    "a tuple": (
        [(1, 2)],
        None,
        "row 1 is a tuple, and its columns are not declared",
        'declare them, columns={"id": "bigint", "name": "string"}, or give dicts',
    ),
    "too few": ([(1, 2), (1,)], {"a": "int", "b": "int"}, "row 2 has 1 value for 2 columns", None),
    "no row": (
        [{"a": 1}, 5],
        None,
        "row 2 is an int",
        "rows are dicts, or tuples with `columns` declared; pandas, pyarrow and Spark DataFrames are taken as they are",
    ),
    "no rows": (
        5,
        None,
        "an int holds no rows",
        "rows are dicts, or tuples with `columns` declared; pandas, pyarrow and Spark DataFrames are taken as they are",
    ),
    "a text": (
        "abc",
        None,
        "a str holds no rows",
        "rows are dicts, or tuples with `columns` declared; pandas, pyarrow and Spark DataFrames are taken as they are",
    ),
    "declared": ([{"a": "1"}, {"a": "x"}], {"a": "int"}, "column \"a\" in row 2: 'x' is not a valid int", None),
    "declared, too large": (
        [{"a": 2**31}],
        {"a": "int"},
        'column "a" in row 1: 2147483648 is not a valid int: it is too large',
        None,
    ),
    "declared, too fine": (
        [{"a": "0.125"}],
        {"a": "decimal(4,2)"},
        "column \"a\" in row 1: '0.125' is not a valid decimal(4,2)",
        None,
    ),
    "declared, a time of day": (
        [{"a": NOON}],
        {"a": "date"},
        'column "a" in row 1: datetime.datetime(2026, 1, 2, 12, 0) is not a valid date: it has a time of day',
        None,
    ),
    "declared, no field": (
        [{"a": {"y": 1}}],
        {"a": "struct<x: int>"},
        'column "a" in row 1: {\'y\': 1} is not a valid struct<x:int>: the type has no field "y"',
        None,
    ),
    "declared, no type": (
        [],
        {"a": "nubmer"},
        'column "a": there is no type nubmer',
        "write one of Spark's, such as bigint",
    ),
    "arrow": (
        pa.table({"a": pa.array([timedelta(1)])}),
        None,
        'column "a": duration[us] is not a type that a column can have',
        "make it a number, for instance of seconds, or a text",
    ),
    "arrow, declared": (
        pa.table({"a": ["x"]}),
        {"a": "int"},
        "column \"a\" cannot be int: Failed to parse string: 'x' as a scalar of type int32",
        None,
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_makes_no_table_is_refused_with_column_and_row(tmp_path: Path, case: str) -> None:
    value, columns, message, hint = REFUSED[case]
    with pytest.raises(BadData) as raised:
        loaded(tmp_path, value, columns=columns)
    assert (raised.value.message, raised.value.hint) == (message, hint)


def test_types_that_differ_are_found_across_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_module, "_MAX_BUFFERED_ROWS", 2)
    with pytest.raises(BadData, match='column "a" is double in row 1 and string in row 5'):
        loaded(tmp_path, [{"a": v} for v in (1, None, 2.5, None, "x", "y")])
    with pytest.raises(BadData, match='column "a" cannot be double in all rows'):
        loaded(tmp_path, [{"a": v} for v in (2**60 + 1, None, 0.5)])


def test_small_data_loads_neither_pandas_nor_spark(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from sqb.python_runtime.loader.rows import LoaderOutput;"
        f"d = LoaderOutput(Path({str(tmp_path)!r}), {{'a': 'int'}}); d.write([{{'a': 1}}]); d.finish();"
        "print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "pyarrow" in loaded
    assert loaded & {"pandas", "pyspark", "py4j", "sqlglot", "pyiceberg"} == set()
