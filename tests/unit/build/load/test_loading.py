"""The write of a loader without Spark: what becomes of a table, and when nothing is committed."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqb.build.load.load import Load, load_files
from sqb.build.node.context import NodeOutcome
from sqb.build.observe.lake import build_relation_state
from sqb.errors.build import DuplicateColumn, KeyMissing, KeyViolation, RowsUnfit, SchemaRefused
from sqb.errors.lake import Conflict, UnsupportedType
from sqb.lake.arrow.checksum import RowsContent, compute_content
from sqb.lake.iceberg import IcebergLake
from sqb.lake.port import Column, Shape, TableState
from sqb.names import At, Relation
from sqb.project.config.connections.lake_location import LakeLocation
from support.examples import count_examples
from support.memory_lake import MemoryLake

ORDERS = Relation("raw", "orders")
AT = At("python/loaders/orders.py", 3, 5, 6)
Mode = Literal["replace", "append", "upsert"]
Row = Mapping[str, Any]


class Desk:
    """A lake, and loads to one table of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lake = IcebergLake(LakeLocation.embedded(root / "catalog.db", root / "data"))
        self.numbers = itertools.count(1)
        self.steps: list[str] = []

    def state(self) -> TableState | None:
        pointer = self.lake.list_pointers().get(ORDERS)
        return self.lake.read_tables([pointer])[ORDERS] if pointer is not None else None

    def a_load(self, mode: Mode = "replace", key: tuple[str, ...] = (), **columns: str) -> Load:
        run = f"20260101_000000_{next(self.numbers):06x}"

        def announce(step: str, node: str) -> None:
            self.steps.append(step)

        return Load("orders", ORDERS, mode, key, columns, self.state(), run, "abc", "hash", self.lake, AT, announce)

    def load(self, *parts: Any, mode: Mode = "replace", key: tuple[str, ...] = (), **columns: str) -> NodeOutcome:
        """Load rows, given as lists of dictionaries or as tables: each part is a file of its own."""
        return self.carry_out(self.a_load(mode, key, **columns), *parts)

    def carry_out(self, load: Load, *parts: Any) -> NodeOutcome:
        files = []
        for part in parts:
            table = pa.Table.from_pylist(part) if isinstance(part, list) else part
            files.append(self.root / f"{next(self.numbers)}.arrow")
            # Both formats of Arrow's are read.
            new = pa.ipc.new_stream if len(files) % 2 else pa.ipc.new_file
            with new(files[-1], table.schema) as writer:
                writer.write_table(table, max_chunksize=3)
        self.steps = []
        return load_files(load, files)

    @property
    def table(self) -> Any:
        return self.lake.open_for_writing().catalog.load_table(("raw", "orders"))

    def rows(self) -> list[Row]:
        if isinstance(self.lake, MemoryLake):
            names = [c.name for c in (self.state() or TableState("")).columns]
            return [dict(zip(names, row, strict=True)) for row in self.lake.rows(ORDERS)]
        pylist: list[Row] = self.table.scan().to_arrow().to_pylist()
        return sorted(pylist, key=repr)

    def columns(self) -> list[tuple[str, str, int]]:
        state = self.state()
        assert state is not None
        return [(c.name, c.type.strip('"'), c.id) for c in state.columns]

    def commits(self) -> int:
        return len(self.table.metadata.snapshots)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


ROWS = [{"id": 1, "name": "a"}, {"id": 2, "name": None}, {"id": 2, "name": None}]


def test_the_first_load_makes_the_table(desk: Desk) -> None:
    done = desk.load(ROWS)
    assert (done.rows, done.identical, done.run_type) == (3, False, "backfill") and done.state == desk.state()
    assert desk.rows() == sorted(ROWS, key=repr) and desk.columns() == [("id", "long", 1), ("name", "string", 2)]
    assert desk.steps == ["before stage", "staged", "written", "before publish", "published"]
    assert done.state is not None and not done.state.identity.model and "sqb.model" not in done.state.properties
    identity = done.state.identity
    assert (identity.loader, identity.local_hash, identity.git) == ("orders", "hash", "abc")


def test_identical_rows_commit_nothing(desk: Desk) -> None:
    first = desk.load(ROWS)
    again = desk.load([{"name": r["name"], "id": r["id"]} for r in reversed(ROWS[1:])], ROWS[:1])
    assert again.identical and again.rows == 0 and again.state == first.state and desk.commits() == 1
    assert again.snapshot_id == first.snapshot_id and desk.steps == []
    other = desk.load(ROWS[:2])
    assert not other.identical and other.rows == 2 and other.run_type == "full" and desk.commits() == 2
    back = desk.load(ROWS)
    assert first.state is not None and back.state is not None
    # Whoever has read the first version has read this one.
    assert build_relation_state(back.state).version.content == build_relation_state(first.state).version.content


def test_a_column_more_is_a_change_even_if_it_is_null(desk: Desk) -> None:
    desk.load([{"id": 1}])
    assert not desk.load([{"id": 1, "x": None}]).identical
    assert desk.columns() == [("id", "long", 1), ("x", "string", 2)]
    assert not desk.load([{"id": 1}]).identical
    assert desk.columns() == [("id", "long", 1)]


def test_append_is_a_log(desk: Desk) -> None:
    desk.load(ROWS, mode="append")
    done = desk.load(ROWS, mode="append")
    assert done.rows == 3 and done.run_type == "incremental" and len(desk.rows()) == 6
    assert desk.load([], mode="append").identical and desk.load(mode="append").identical and desk.commits() == 2
    assert desk.load(ROWS, ROWS).identical


def test_replace_by_nothing_and_nothing_at_all(desk: Desk) -> None:
    nothing = desk.load()
    assert nothing.state is None and nothing.identical and "no table was made" in nothing.notices[0]
    assert desk.load([]).state is None and desk.state() is None
    empty = desk.load(id="bigint", at="timestamp")
    assert (
        empty.state is not None and empty.rows == 0 and desk.columns() == [("id", "long", 1), ("at", "timestamptz", 2)]
    )
    assert desk.load(id="bigint", at="timestamp").identical
    desk.load([{"id": 1}], id="bigint", at="timestamp")
    assert desk.rows() == [{"id": 1, "at": None}]
    assert not desk.load().identical and desk.rows() == [] and len(desk.columns()) == 2
    assert desk.load().identical


def test_columns_come_and_become_wider(desk: Desk) -> None:
    desk.load(pa.table({"id": pa.array([1], pa.int32()), "d": [Decimal("1.5")], "s": [{"a": 1}]}))
    assert desk.columns()[:2] == [("id", "int", 1), ("d", "decimal(2, 1)", 2)]
    desk.load([{"ID": 2**40, "d": Decimal("22.5"), "s": {"b": "x"}, "new": True}], mode="append")
    desk.load([{"id": 3.0, "d": 4}], mode="append")
    assert [c[:2] for c in desk.columns()] == [
        ("id", "long"),
        ("d", "decimal(3, 1)"),
        ("s", '["struct",[["a","long",false],["b","string",false]]]'),
        ("new", "boolean"),
    ]
    assert [c[2] for c in desk.columns()] == [1, 2, 3, 6]
    assert desk.rows() == [
        {"id": 1, "d": Decimal("1.5"), "s": {"a": 1, "b": None}, "new": None},
        {"id": 2**40, "d": Decimal("22.5"), "s": {"a": None, "b": "x"}, "new": True},
        {"id": 3, "d": Decimal("4.0"), "s": None, "new": None},
    ]
    # The content has been kept up all the time.
    assert desk.load(desk.table.scan().to_arrow()).identical


@pytest.mark.parametrize(
    ("first", "then", "error", "message"),
    [
        ([{"a": 1}], [{"a": "x"}], SchemaRefused, '"a" is bigint in the table and string in the new rows'),
        (
            [{"a": 1}],
            [{"a": 1.5}],
            RowsUnfit,
            '"a" is bigint, and its rows of type double do not fit; one value is 1.5',
        ),
        (
            [{"a": Decimal("1.5")}],
            [{"a": Decimal("1.55")}],
            RowsUnfit,
            r'"a" is decimal\(2,1\), and its rows of type dec',
        ),
        ([{"a": [1]}], [{"a": ["x"]}], SchemaRefused, '"a" is array<bigint> in the table and array<string> in the new'),
        (
            [{"a": datetime(2026, 1, 1)}],
            [{"a": datetime(2026, 1, 1, tzinfo=UTC)}],
            SchemaRefused,
            '"a" is timestamp_ntz in the table and timestamp in the new rows',
        ),
    ],
)
def test_columns_that_cannot_become_another(desk: Desk, first: Any, then: Any, error: type, message: str) -> None:
    desk.load(first)
    before = desk.state()
    with pytest.raises(error, match=message) as caught:
        desk.load(then, mode="append")
    assert caught.value.at == AT and "columns=" in caught.value.hint
    assert desk.state() == before
    assert not any(r.schema.startswith("_sqlbuild") for r in desk.lake.list_pointers())
    assert desk.load(then).rows == 1


def test_declared_types(desk: Desk) -> None:
    rows = [{"id": "7", "price": 0.1, "at": "2026-01-01T00:00:00+01:00", "tags": [], "n": None}]
    desk.load(rows, id="int", price="decimal(10,2)", at="timestamp", tags="array<string>", n="date")
    at = datetime(2025, 12, 31, 23, tzinfo=UTC)
    assert desk.rows() == [{"id": 7, "price": Decimal("0.10"), "at": at, "tags": [], "n": None}]
    assert [c[1] for c in desk.columns()][:3] == ["int", "decimal(10, 2)", "timestamptz"]
    with pytest.raises(
        RowsUnfit, match="\"at\" is timestamp, and its rows of type string do not fit; one value is 'soon'"
    ):
        desk.load([{"at": "soon"}], at="timestamp")
    with pytest.raises(RowsUnfit, match="columns= gives \"id\" the type 'number'") as caught:
        desk.load(rows, id="number")
    assert caught.value.at == AT


def test_parts_with_different_columns(desk: Desk) -> None:
    desk.load([{"a": 1, "b": None}], [{"b": 2.5, "A": None}], [{"a": 3, "c": "x"}])
    assert [c[:2] for c in desk.columns()] == [("a", "long"), ("b", "double"), ("c", "string")]
    assert {tuple(r.values()) for r in desk.rows()} == {(1, None, None), (None, 2.5, None), (3, None, "x")}
    with pytest.raises(SchemaRefused, match='"a" is bigint in some rows and string in others'):
        desk.load([{"a": 1}], [{"a": "x"}])
    desk.load([{"a": 1}], [{"a": "x"}], a="string")
    assert desk.rows() == [{"a": "1"}, {"a": "x"}]


def test_names_that_no_table_has(desk: Desk) -> None:
    with pytest.raises(DuplicateColumn, match='more than one column called "ID", "id"'):
        desk.load(pa.table([[1], [2]], names=["id", "ID"]))
    with pytest.raises(RowsUnfit, match="a column without a name"):
        desk.load(pa.table([[1]], names=[""]))
    with pytest.raises(UnsupportedType, match='"t" has the type time64') as caught:
        desk.load(pa.table({"t": pa.array([1], pa.time64("us"))}))
    assert caught.value.at == AT


def test_a_table_that_moved_meanwhile(desk: Desk) -> None:
    desk.load(ROWS)
    late = desk.a_load()
    desk.load([{"id": 5, "name": "else"}], mode="append")
    for mode in ("replace", "append"):
        with pytest.raises(Conflict):
            desk.carry_out(replace(late, mode=mode), [{"id": 6, "name": "late"}])
    assert len(desk.rows()) == 4
    new = replace(late, current=None)
    with pytest.raises(Conflict, match="it was created"):
        desk.carry_out(new, ROWS)
    assert not any(r.schema.startswith("_sqlbuild") for r in desk.lake.list_pointers())


def test_a_table_of_somebody_else_is_continued(desk: Desk) -> None:
    desk.lake.ensure_schemas(["raw"])
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    table = desk.lake.open_for_writing().catalog.create_table(("raw", "orders"), schema, properties={"owner": "them"})
    table.append(pa.Table.from_pylist([{"id": 1, "name": "a"}], schema))
    done = desk.load([{"id": 2, "name": "b"}], mode="append")
    assert done.state is not None and not done.state.identity.content
    assert len(desk.rows()) == 2 and desk.table.properties["owner"] == "them"
    # Whose rows nobody has summed up are replaced even by the same.
    assert desk.load([{"id": 2, "name": "b"}, {"id": 1, "name": "a"}]).rows == 2
    assert desk.load([{"id": 2, "name": "b"}, {"id": 1, "name": "a"}]).identical
    desk.table.append(pa.Table.from_pylist([{"id": 3, "name": "c"}], schema))
    assert desk.load([{"id": 2, "name": "b"}, {"id": 1, "name": "a"}]).rows == 2


def test_what_a_model_builds_is_not_written_to(desk: Desk) -> None:
    desk.lake.ensure_schemas(["raw"])
    stage = desk.lake.stage(ORDERS, Shape((Column("id", "long"),), properties={"sqb.model": "raw.orders"}), None, "r")
    desk.lake.publish(stage, {"sqb.model": "raw.orders"})
    with pytest.raises(RowsUnfit, match=r"raw.orders is what the model raw.orders builds") as caught:
        desk.load(ROWS)
    assert caught.value.at == AT


def test_what_fails_midway_leaves_nothing(desk: Desk) -> None:
    desk.load([{"id": 1}])
    files = {p for p in desk.root.rglob("*") if p.is_file()}
    with pytest.raises(RowsUnfit):
        desk.load([{"id": float(i)} for i in range(100)], [{"id": 0.5}], mode="append")
    assert set(desk.root.rglob("*.parquet")) <= files and desk.rows() == [{"id": 1}]


def test_structures_without_fields(desk: Desk) -> None:
    with pytest.raises(RowsUnfit, match='"a" holds structures without any field'):
        desk.load([{"a": [{}]}])
    desk.load([{"a": {}}], [{"a": {"b": 1}}, {"a": None}])
    assert desk.rows() == [{"a": None}, {"a": {"b": 1}}, {"a": {"b": None}}]


def test_a_table_whose_files_are_of_another_format(desk: Desk) -> None:
    desk.lake.ensure_schemas(["raw"])
    properties = {"write.format.default": "orc", "write.metadata.path": str(desk.root / "elsewhere")}
    catalog = desk.lake.open_for_writing().catalog
    catalog.create_table(("raw", "orders"), pa.schema([("id", pa.int64())]), properties=properties)
    made = set((desk.root / "elsewhere").iterdir())
    desk.load([{"id": 1}], mode="append")
    assert desk.rows() == [{"id": 1}] and properties.items() <= desk.table.properties.items()
    # What belongs to the commit is where it should be, and nothing of the stage is.
    assert len(set((desk.root / "elsewhere").iterdir()) - made) == 3


# --- upsert ---------------------------------------------------------------------------------------------------------


def test_upsert_replaces_adds_and_leaves(desk: Desk) -> None:
    first = desk.load([{"id": i, "v": "old"} for i in range(4)], mode="upsert", key=("id",))
    assert first.rows == 4 and first.run_type == "backfill"
    rows = [{"id": 1, "v": "old"}, {"id": 2, "v": "new"}, {"ID": 9, "v": "new"}]
    done = desk.load(rows[:2], rows[2:], mode="upsert", key=("Id",))
    assert done.rows == 2 and done.run_type == "incremental"
    assert {r["id"]: r["v"] for r in desk.rows()} == {0: "old", 1: "old", 2: "new", 3: "old", 9: "new"}
    again = desk.load(rows[:2], rows[2:], mode="upsert", key=("Id",))
    assert again.identical and desk.commits() == 2 and desk.steps == []
    assert desk.load(mode="upsert", key=("id",)).identical and desk.load([], mode="upsert", key=("id",)).identical
    # The content has been kept up: a replacement by the same rows is seen to be one.
    assert desk.load(desk.table.scan().to_arrow()).identical


def test_upsert_rewrites_only_files_with_touched_keys(desk: Desk) -> None:
    for start in (0, 100, 200):
        desk.load([{"id": start + i, "v": 0} for i in range(50)], mode="upsert", key=("id",))
    before = {task.file.file_path for task in desk.table.scan().plan_files()}
    desk.load([{"id": 110, "v": 1}, {"id": 120, "v": 0}, {"id": 205, "v": 0}], mode="upsert", key=("id",))
    after = {task.file.file_path for task in desk.table.scan().plan_files()}
    assert len(before) == 3 and len(before & after) == 2
    assert sum(r["v"] for r in desk.rows()) == 1 and len(desk.rows()) == 150


def test_an_upserted_row_is_the_whole_row(desk: Desk) -> None:
    desk.load([{"id": 1, "a": "x", "b": {"c": 1}}, {"id": 2, "a": "y", "b": None}], mode="upsert", key=("id",))
    desk.load([{"id": 1, "new": 1.5, "a": None}, {"id": 2, "a": "y"}], mode="upsert", key=("id",))
    assert desk.rows() == [
        {"id": 1, "a": None, "b": None, "new": 1.5},
        {"id": 2, "a": "y", "b": None, "new": None},
    ]


def test_keys_of_several_columns_and_types(desk: Desk) -> None:
    day = [date(2026, 1, 1), date(2026, 1, 2)]
    rows = [{"day": day[i % 2], "n": Decimal(i), "s": f"{i}", "f": 0.5 * i, "v": i} for i in range(6)]
    key = ("day", "n", "s", "f")
    desk.load(rows, mode="upsert", key=key)
    changed = [{**rows[3], "v": 99}, {**rows[2], "day": day[1]}, {**rows[0], "f": -0.0, "v": 0}]
    done = desk.load(changed, mode="upsert", key=key)
    assert done.rows == 3 and len(desk.rows()) == 7
    assert sorted(r["v"] for r in desk.rows()) == [0, 1, 2, 2, 4, 5, 99]


@pytest.mark.parametrize("inside", [lambda x: x, lambda x: {"x": x}, lambda x: [x]], ids=["plain", "struct", "list"])
def test_zeros_and_nan_are_one_key_and_show_in_rows(desk: Desk, inside: Any) -> None:
    zero, minus, nan = inside(0.0), inside(-0.0), inside(float("nan"))
    desk.load([{"k": zero, "v": "a"}, {"k": nan, "v": "b"}, {"k": inside(1.0), "v": "c"}], mode="upsert", key=("k",))
    assert desk.load([{"k": nan, "v": "b"}], mode="upsert", key=("k",)).identical
    # The same key in another form is another row.
    assert desk.load([{"k": minus, "v": "a"}], mode="upsert", key=("k",)).rows == 1
    assert desk.load([{"k": minus, "v": "a"}], mode="upsert", key=("k",)).identical
    assert sorted(str(r["k"]) for r in desk.rows()) == sorted(str(k) for k in (minus, nan, inside(1.0)))
    desk.load([{"k": zero, "v": "z"}, {"k": nan, "v": "z"}], mode="upsert", key=("k",))
    shown = sorted((str(r["k"]), r["v"]) for r in desk.rows())
    assert shown == sorted([(str(zero), "z"), (str(nan), "z"), (str(inside(1.0)), "c")])
    with pytest.raises(KeyViolation, match="not unique"):
        desk.load([{"k": zero, "v": "z"}, {"k": minus, "v": "z"}], mode="upsert", key=("k",))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": None, "d": "a"}, {"id": 1, "d": "a"}], r"1 row has NULL in the key \(id, d\): id = NULL, d = a"),
        (
            [{"id": 1, "d": "a"}, {"id": 1, "d": "a"}, {"id": 2, "d": "b"}],
            r"the key \(id, d\) is not unique in the new rows: id = 1, d = a \(2 rows\)$",
        ),
    ],
)
def test_keys_that_are_none(desk: Desk, rows: Any, message: str) -> None:
    for _ in range(2):
        with pytest.raises(KeyViolation, match=message) as caught:
            desk.load(rows, mode="upsert", key=("id", "d"))
        assert caught.value.at == AT
        desk.load([{"id": 1, "d": "a"}])
    with pytest.raises(KeyViolation, match=r"\(2 rows\) and 3 more"):
        desk.load([{"id": i % 8} for i in range(16)], mode="upsert", key=("id",))
    with pytest.raises(KeyMissing, match='key names "idd"') as missing:
        desk.load([{"id": 1}], mode="upsert", key=("idd",))
    assert missing.value.hint == "did you mean 'id'?"


def test_names_that_need_care(desk: Desk) -> None:
    row = {"a.b": 1, "größe x": "q", "`": 2.5, "1": None}
    desk.load([row], mode="upsert", key=("a.b", "größe x"))
    desk.load([{**row, "`": 3.5}, {**row, "a.b": 2}], mode="upsert", key=("a.b", "Größe x"))
    assert desk.rows() == [{**row, "`": 3.5}, {**row, "a.b": 2}]
    with pytest.raises(KeyMissing, match="needs a key"):
        desk.load([row], mode="upsert")


def test_a_key_with_several_rows_gets_one(desk: Desk) -> None:
    desk.load([{"id": 1, "v": "a"}, {"id": 1, "v": "a"}, {"id": 2, "v": "b"}])
    assert desk.load([{"id": 1, "v": "a"}], mode="upsert", key=("id",)).rows == 1
    assert desk.rows() == [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}]


def test_upsert_beside_a_type_that_spark_lacks(desk: Desk) -> None:
    desk.lake.ensure_schemas(["raw"])
    schema = pa.schema([("id", pa.int64()), ("t", pa.time64("us"))])
    table = desk.lake.open_for_writing().catalog.create_table(("raw", "orders"), schema)
    table.append(pa.table({"id": [1], "t": pa.array([1], pa.time64("us"))}))
    desk.load([{"id": 2}], mode="append")
    assert [r["t"] for r in desk.rows()] == [time(0, 0, 0, 1), None]
    with pytest.raises(SchemaRefused, match=r'column "t" of raw.orders has the type time'):
        desk.load([{"id": 2, "v": 1}], mode="upsert", key=("id",))


# --- against a small model of it --------------------------------------------------------------------------------------


class Model:
    """A table as a list of dictionaries."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def load(self, mode: Mode, rows: list[dict[str, Any]]) -> None:
        if mode == "replace":
            self.rows = []
        elif mode == "upsert":
            keys = [row["k"] for row in rows]
            if None in keys or len(keys) != len(set(keys)):
                raise KeyViolation("")
            self.rows = [row for row in self.rows if row.get("k") not in keys]
        self.rows = [*self.rows, *rows]

    def counted(self) -> Counter[Any]:
        return Counter(frozenset((n, repr(v)) for n, v in row.items() if v is not None) for row in self.rows)


LOADS = st.tuples(
    st.sampled_from(["replace", "append", "upsert", "upsert"]),
    st.lists(
        st.fixed_dictionaries(
            {"k": st.integers(0, 7) | st.integers(0, 8).map(lambda n: n or None)},
            optional={"a": st.none() | st.sampled_from(["", "x"]), "b": st.none() | st.booleans()},
        ),
        max_size=4,
    ),
    st.integers(1, 3),
)


@pytest.mark.parametrize("backend", ["memory", "storage"])
def test_any_sequence_of_loads_is_what_it_means(backend: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    @settings(max_examples=count_examples(80 if backend == "memory" else 12), deadline=None)
    @given(st.lists(LOADS, max_size=7))
    def check(loads: list[tuple[Mode, list[dict[str, Any]], int]]) -> None:
        desk = Desk(tmp_path_factory.mktemp("lake"))
        if backend == "memory":
            desk.lake = MemoryLake()  # type: ignore[assignment]
        model = Model()
        for mode, rows, parts in loads:
            carry_out(desk, model, mode, rows, parts)

    check()


def carry_out(desk: Desk, model: Model, mode: Mode, rows: list[dict[str, Any]], parts: int) -> None:
    before, state = model.counted(), desk.state()
    files = [rows[i::parts] for i in range(parts)]
    tables = [
        pa.Table.from_pylist(f, pa.schema([(n, TYPES[n]) for n in TYPES if any(n in r for r in f)])) for f in files
    ]
    try:
        model.load(mode, rows)
    except KeyViolation:
        with pytest.raises(KeyViolation):
            desk.load(*tables, mode=mode, key=("k",))
        assert desk.state() == state
        return
    done = desk.load(*tables, mode=mode, key=("k",))
    current = desk.state()
    assert done.state == current
    if current is None:
        assert not rows
        return
    there = Model()
    there.rows = [dict(r) for r in desk.rows()]
    assert there.counted() == model.counted()
    assert done.identical == (current == state)
    if state is not None and state.columns == current.columns and mode != "append":
        assert done.identical == (before == model.counted())
    content = RowsContent.parse(current.identity.content)
    names = [c.name for c in current.columns]
    assert content == compute_content(
        [pa.RecordBatch.from_pylist(there.rows, pa.schema([(n, TYPES[n]) for n in names]))]
    )


TYPES = {"k": pa.int64(), "a": pa.large_string(), "b": pa.bool_()}


@pytest.mark.parametrize("mode", ["replace", "append", "upsert"])
@pytest.mark.parametrize("step", ["before stage", "staged", "written", "before publish", "published"])
def test_what_is_cut_off_at_a_step_is_done_or_not_begun(desk: Desk, mode: Mode, step: str) -> None:
    desk.load([{"id": 1}])
    before, files = desk.state(), set(desk.root.rglob("*.parquet"))

    def announce(at: str, node: str) -> None:
        if (at, node) == (step, "orders"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        desk.carry_out(replace(desk.a_load(mode, ("id",)), announce=announce), [{"id": 2}])
    assert not any(r.schema.startswith("_sqlbuild") for r in desk.lake.list_pointers())
    if step == "published":
        assert desk.rows() == ([{"id": 2}] if mode == "replace" else [{"id": 1}, {"id": 2}])
    else:
        assert desk.state() == before and set(desk.root.rglob("*.parquet")) == files
