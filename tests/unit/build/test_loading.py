"""The write of a loader without Spark: what becomes of a table, and when nothing is committed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

from sqb.build.loading import Load, load_files
from sqb.build.observe import standing_of
from sqb.build.turn import Outcome
from sqb.errors import Conflict, DuplicateColumn, RowsUnfit, SchemaRefused, UnsupportedType
from sqb.lake.jdbc import JdbcLake
from sqb.lake.port import Column, Shape, TableState
from sqb.names import At, Relation

ORDERS = Relation("raw", "orders")
AT = At("python/loaders/orders.py", 3, 5, 6)
Mode = Literal["replace", "append", "upsert"]
Row = Mapping[str, Any]


class Desk:
    """A lake, and loads to one table of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lake = JdbcLake(root / "catalog.db", root / "data")
        self.numbers = itertools.count(1)
        self.steps: list[str] = []

    def state(self) -> TableState | None:
        pointer = self.lake.pointers().get(ORDERS)
        return self.lake.tables([pointer])[ORDERS] if pointer is not None else None

    def a_load(self, mode: Mode = "replace", key: tuple[str, ...] = (), **columns: str) -> Load:
        run = f"20260101_000000_{next(self.numbers):06x}"

        def announce(step: str, node: str) -> None:
            self.steps.append(step)

        return Load("orders", ORDERS, mode, key, columns, self.state(), run, "abc", "hash", self.lake, AT, announce)

    def load(self, *parts: Any, mode: Mode = "replace", key: tuple[str, ...] = (), **columns: str) -> Outcome:
        """Load rows, given as lists of dictionaries or as tables: each part is a file of its own."""
        return self.carry_out(self.a_load(mode, key, **columns), *parts)

    def carry_out(self, load: Load, *parts: Any) -> Outcome:
        files = []
        for part in parts:
            table = pa.Table.from_pylist(part) if isinstance(part, list) else part
            files.append(self.root / f"{next(self.numbers)}.arrow")
            with pa.ipc.new_stream(files[-1], table.schema) as writer:
                writer.write_table(table, max_chunksize=3)
        self.steps = []
        return load_files(load, files)

    @property
    def table(self) -> Any:
        return self.lake.open_for_writing().catalog.load_table(("raw", "orders"))

    def rows(self) -> list[Row]:
        found: list[Row] = self.table.scan().to_arrow().to_pylist()
        return sorted(found, key=repr)

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
    assert done.state is not None and "sqb.model" not in {**done.state.identity, **done.state.properties}
    identity = {k: v for k, v in done.state.identity.items() if k in ("sqb.loader", "sqb.local_hash", "sqb.git")}
    assert identity == {"sqb.loader": "orders", "sqb.local_hash": "hash", "sqb.git": "abc"}


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
    assert standing_of(back.state).version.content == standing_of(first.state).version.content


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
    ("first", "then", "error", "said"),
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
def test_columns_that_cannot_become_another(desk: Desk, first: Any, then: Any, error: type, said: str) -> None:
    desk.load(first)
    before = desk.state()
    with pytest.raises(error, match=said) as caught:
        desk.load(then, mode="append")
    assert caught.value.at == AT and "columns=" in caught.value.hint
    assert desk.state() == before
    assert not any(r.schema.startswith("_sqlbuild") for r in desk.lake.pointers())
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
    new = replace(late, standing=None)
    with pytest.raises(Conflict, match="it was created"):
        desk.carry_out(new, ROWS)
    assert not any(r.schema.startswith("_sqlbuild") for r in desk.lake.pointers())


def test_a_table_of_somebody_else_is_continued(desk: Desk) -> None:
    desk.lake.ensure_schemas(["raw"])
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    table = desk.lake.open_for_writing().catalog.create_table(("raw", "orders"), schema, properties={"owner": "them"})
    table.append(pa.Table.from_pylist([{"id": 1, "name": "a"}], schema))
    done = desk.load([{"id": 2, "name": "b"}], mode="append")
    assert done.state is not None and done.state.identity.get("sqb.content") is None
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
