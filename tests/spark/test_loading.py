"""Loads on Spark: the same meaning as without, and tables that both ways of loading and Spark's own writes share."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sqb.build.load.load import load_files, load_frame
from sqb.build.load.publish import Load
from sqb.build.node.context import NodeOutcome
from sqb.errors.build import DuplicateColumn, KeyViolation, RowsUnfit, SchemaRefused
from sqb.errors.lake import Conflict
from sqb.lake.iceberg import IcebergLake
from sqb.lake.port import TableState
from sqb.names import At, Relation
from sqb.project.config.settings import CostGate

NUMBERS = itertools.count(1)
AT = At("python/loaders/x.py", 2, 5)


class Desk:
    """Loads to one table of the lake that Spark was started on."""

    def __init__(self, spark: SparkSession, lake: IcebergLake, folder: Path) -> None:
        self.spark, self.lake, self.folder = spark, lake, folder
        self.relation = Relation("s", f"loaded_{next(NUMBERS)}")
        self.name = f"lake.{self.relation}"
        self.small_rows = CostGate().small_rows

    def state(self) -> TableState | None:
        pointer = self.lake.list_pointers().get(self.relation)
        return self.lake.read_tables([pointer])[self.relation] if pointer is not None else None

    def a_load(self, mode: Any, key: tuple[str, ...], columns: dict[str, str]) -> Load:
        run = f"20260101_000000_{next(NUMBERS):06x}"
        load = Load("x", self.relation, mode, key, columns, self.state(), run, "", "h", self.lake, AT)
        return replace(load, small_rows=self.small_rows)

    def frame(self, sql: str, mode: str = "replace", key: tuple[str, ...] = (), **columns: str) -> NodeOutcome:
        return load_frame(self.a_load(mode, key, columns), self.spark, self.spark.sql(sql))

    def rows(self, rows: Any, mode: str = "replace", key: tuple[str, ...] = ()) -> NodeOutcome:
        table = pa.Table.from_pylist(rows)
        path = self.folder / f"{next(NUMBERS)}.arrow"
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table)
        return load_files(self.a_load(mode, key, {}), [path])

    def read_rows(self, columns: str = "*") -> list[tuple[Any, ...]]:
        return sorted((tuple(r) for r in self.spark.sql(f"SELECT {columns} FROM {self.name}").collect()), key=repr)

    def types(self) -> str:
        return self.spark.table(self.name).schema.simpleString()

    def commits(self) -> int:
        return self.spark.table(f"{self.name}.snapshots").count()


@pytest.fixture
def desk(spark: SparkSession, lake: IcebergLake, tmp_path: Path) -> Desk:
    return Desk(spark, lake, tmp_path)


RICH = """SELECT CAST(1 AS TINYINT) AS t, 1.5BD AS d, map('k', array(1, NULL)) AS m,
  named_struct('a', 1S, 'b', NULL) AS s, TIMESTAMP_NTZ'2026-01-01' AS w,
  TIMESTAMP'2026-01-01' AS z, NULL AS n, X'01' AS x FROM range(3)"""


def test_replace(desk: Desk) -> None:
    first = desk.frame(RICH)
    assert (first.rows, first.run_type, first.state) == (3, "backfill", desk.state())
    assert desk.types() == (
        "struct<t:int,d:decimal(2,1),m:map<string,array<int>>,s:struct<a:int,b:string>,"
        "w:timestamp_ntz,z:timestamp,n:string,x:binary>"
    )
    again = desk.frame(RICH)
    assert again.identical and again.state == first.state and desk.commits() == 1
    assert not any(r.name.startswith(f"s__{desk.relation.name}__") for r in desk.lake.list_pointers())
    other = desk.frame("SELECT 1 AS t, 'new' AS more, 2.5BD AS d")
    assert other.rows == 1 and desk.types() == "struct<t:int,d:decimal(2,1),more:string>"
    assert desk.read_rows() == [(1, *desk.read_rows("d")[0], "new")]
    with pytest.raises(DuplicateColumn):
        desk.frame("SELECT 1 AS a, 2 AS A")


def test_append_and_columns(desk: Desk) -> None:
    assert desk.frame("SELECT 1 AS id, 'a' AS v", "append").run_type == "backfill"
    content = desk.frame("SELECT 1 AS ID, 'a' AS v", "append").state.identity.content  # type: ignore[union-attr]
    assert content.startswith("n:2:") and desk.frame("SELECT 1 AS id, 'a' AS v FROM range(2)").identical
    assert desk.frame("SELECT 1 AS id, 'a' AS v WHERE false", "append").identical
    grown = desk.frame("SELECT 2L AS id, true AS more", "append")
    assert grown.state is not None and not grown.state.identity.content
    assert desk.types() == "struct<id:bigint,v:string,more:boolean>"
    desk.frame("SELECT 3.0D AS id, named_struct('x', 1) AS s", "append")
    desk.frame("SELECT 4 AS id, named_struct('y', 'b') AS s", "append")
    assert desk.read_rows("id, v, more, s.x, s.y") == [
        (1, "a", None, None, None),
        (1, "a", None, None, None),
        (2, None, True, None, None),
        (3, None, None, 1, None),
        (4, None, None, None, "b"),
    ]
    with pytest.raises(
        RowsUnfit, match=r'"id" is bigint, and its rows of type double do not fit; one value is 1.5$'
    ) as e:
        desk.frame("SELECT 1.5D AS id", "append")
    assert e.value.at == AT
    with pytest.raises(SchemaRefused, match='"v" is string in the table and array<int> in the new rows'):
        desk.frame("SELECT 1 AS id, array(1) AS v", "append")
    desk.frame("SELECT '7' AS id, '2026-01-01T00:00:00Z' AS at", "replace", id="int", at="timestamp")
    assert desk.types() == "struct<id:int,at:timestamp>"
    with pytest.raises(RowsUnfit, match="one value is soon"):
        desk.frame("SELECT 'soon' AS at", "append", at="timestamp")


def test_upsert(desk: Desk) -> None:
    desk.frame("SELECT id, 'old' AS v FROM range(4)", "upsert", ("id",))
    new = "SELECT * FROM VALUES (1L, 'old'), (2L, 'new'), (9L, 'new') AS t(id, v)"
    done = desk.frame(new, "upsert", ("ID",))
    assert done.rows == 2 and desk.read_rows() == [(0, "old"), (1, "old"), (2, "new"), (3, "old"), (9, "new")]
    assert desk.frame(new, "upsert", ("id",)).identical and desk.commits() == 2
    assert desk.frame(f"SELECT * FROM {desk.name}").identical
    # A loader may read the very table that it writes to.
    desk.frame(f"SELECT id, upper(v) AS v, id > 5 AS big FROM {desk.name} WHERE v = 'new'", "upsert", ("id",))
    assert desk.read_rows() == [
        (0, "old", None),
        (1, "old", None),
        (2, "NEW", False),
        (3, "old", None),
        (9, "NEW", True),
    ]
    with pytest.raises(KeyViolation, match=r"id is not unique: id = 1 \(2 rows\)") as caught:
        desk.frame("SELECT 1L AS id FROM range(2)", "upsert", ("id",))
    assert caught.value.at == AT and "QUALIFY" not in str(caught.value.hint)
    # In a table that is not small only the files of touched keys go.
    desk.frame("SELECT 20L AS id, 'old' AS v, NULL AS big", "append")
    before = {r[0] for r in desk.spark.sql(f"SELECT file_path FROM {desk.name}.files").collect()}
    desk.small_rows = 0
    desk.frame("SELECT 20L AS id, 'x' AS v, NULL AS big", "upsert", ("id",))
    after = {r[0] for r in desk.spark.sql(f"SELECT file_path FROM {desk.name}.files").collect()}
    assert before & after and len(before - after) == 1 and (20, "x", None) in desk.read_rows()
    assert desk.frame(f"SELECT * FROM {desk.name}").identical


ZEROS = "SELECT k, v FROM VALUES (0D, 'a'), (double('NaN'), 'b'), (1D, 'c') AS t(k, v)"


@pytest.mark.parametrize("small_rows", [0, 200_000])
def test_zeros_and_nan_are_one_key_and_show_in_rows(desk: Desk, small_rows: int) -> None:
    desk.small_rows = small_rows
    desk.frame(ZEROS, "upsert", ("k",))
    assert desk.frame("SELECT double('NaN') AS k, 'b' AS v", "upsert", ("k",)).identical
    # The same key in another form is another row.
    assert desk.frame("SELECT -0D AS k, 'a' AS v", "upsert", ("k",)).rows == 1
    assert desk.read_rows("string(k), v") == [("-0.0", "a"), ("1.0", "c"), ("NaN", "b")]
    assert desk.frame("SELECT -0D AS k, 'a' AS v", "upsert", ("k",)).identical
    desk.frame("SELECT k, 'z' AS v FROM VALUES (0D), (double('NaN')) AS t(k)", "upsert", ("k",))
    assert desk.read_rows("string(k), v") == [("0.0", "z"), ("1.0", "c"), ("NaN", "z")]
    # Loads without Spark agree.
    assert desk.rows([{"k": -0.0, "v": "z"}, {"k": float("nan"), "v": "z"}], "upsert", ("k",)).rows == 1
    assert desk.read_rows("string(k), v") == [("-0.0", "z"), ("1.0", "c"), ("NaN", "z")]
    with pytest.raises(KeyViolation, match="not unique"):
        desk.frame("SELECT k, 'z' AS v FROM VALUES (0D), (-0D) AS t(k)", "upsert", ("k",))


def test_tables_of_others(desk: Desk) -> None:
    desk.spark.sql(
        f"CREATE TABLE {desk.name} (id INT NOT NULL, day DATE, v STRING) USING iceberg"
        " PARTITIONED BY (bucket(2, id), day) TBLPROPERTIES ('write.delete.mode' = 'merge-on-read', 'made.by' = 'them')"
    )
    desk.spark.sql(f"ALTER TABLE {desk.name} WRITE ORDERED BY v DESC")
    day = "DATE'2026-01-01' AS day"
    desk.spark.sql(f"INSERT INTO {desk.name} SELECT CAST(id AS INT), {day}, 'a' FROM range(8)")
    desk.spark.sql(f"DELETE FROM {desk.name} WHERE id IN (1, 2)")
    assert desk.spark.sql(f"SELECT * FROM {desk.name}.delete_files").count() > 0
    assert desk.rows([{"id": 3, "v": "b"}], "upsert", ("id",)).rows == 1
    assert desk.read_rows("id, v") == [(0, "a"), (3, "b"), (4, "a"), (5, "a"), (6, "a"), (7, "a")]
    assert desk.rows([{"id": 3, "v": "b"}], "upsert", ("id",)).identical
    desk.spark.sql(f"DELETE FROM {desk.name} WHERE id = 4")
    desk.frame("SELECT 5 AS id, 'c' AS v", "upsert", ("id",))
    assert desk.read_rows("id, v") == [(0, "a"), (3, "b"), (5, "c"), (6, "a"), (7, "a")]
    done = desk.frame("SELECT CAST(id AS INT) AS id, DATE'2026-01-02' AS day, 'x' AS v FROM range(5)", "append")
    assert done.rows == 5 and done.state is not None and done.state.rows == 10
    assert desk.frame("SELECT CAST(id AS INT) AS id, DATE'2026-01-02' AS day, 'x' AS v FROM range(500)").rows == 500
    assert desk.frame("SELECT CAST(id AS INT) AS id, DATE'2026-01-02' AS day, 'x' AS v FROM range(500)").identical
    shown = desk.spark.sql(f"SHOW CREATE TABLE {desk.name}").collect()[0][0]
    assert "bucket(2, id), day" in shown and "'made.by' = 'them'" in shown and "sort-order" in shown
    late = desk.a_load("append", (), {})
    desk.spark.sql(f"INSERT INTO {desk.name} VALUES (1, NULL, 'mine')")
    with pytest.raises(Conflict):
        load_frame(late, desk.spark, desk.spark.sql(f"SELECT 1 AS id, {day}, 'x' AS v"))


def test_what_was_loaded_without_spark_is_read_by_it(desk: Desk) -> None:
    from datetime import UTC, date, datetime
    from decimal import Decimal

    row = {
        "id": 1,
        "at": datetime(2026, 1, 1, 12, tzinfo=UTC),
        "wall": datetime(2026, 1, 1, 12),
        "day": date(2026, 1, 1),
        "d": Decimal("1.50"),
        "l": [{"a": 1}, None],
        "x": b"\x00",
    }
    desk.rows([row])
    desk.rows([{"id": 2, "d": Decimal("100.50"), "l": [{"b": "n"}], "more": 1.5}], "append")
    desk.rows([{"id": 2, "d": Decimal("200.50"), "l": [], "more": None}], "upsert", ("id",))
    assert desk.types() == (
        "struct<id:bigint,at:timestamp,wall:timestamp_ntz,day:date,d:decimal(5,2),l:array<struct<a:bigint,b:string>>,"
        "x:binary,more:double>"
    )
    shown = desk.spark.sql(f"SELECT id, string(at), string(wall), day, string(d), string(l), hex(x) FROM {desk.name}")
    read: Callable[[Any], tuple[Any, ...]] = tuple
    assert sorted(map(read, shown.collect())) == [
        (1, "2026-01-01 12:00:00", "2026-01-01 12:00:00", date(2026, 1, 1), "1.50", "[{1, null}, null]", "00"),
        (2, None, None, None, "200.50", "[]", None),
    ]
    # Each way of loading counts in its own manner; the other one just publishes.
    assert desk.frame(f"SELECT * FROM {desk.name}").rows == 2
    assert desk.frame(f"SELECT * FROM {desk.name}").identical
