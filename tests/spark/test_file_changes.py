"""Deltas of tables with delete files: what is read is what changed, and nothing is left of how it was read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from sqb.lake.iceberg import IcebergLake
from sqb.lake.port import STAGE_SCHEMA, ChangedFiles
from sqb.names import Relation, quote
from sqb.spark.data.changes import MULTIPLICITY
from sqb.spark.data.file_changes import read_file_changes
from support.table_stories import delete_by_equality

RUN = "20260301_120000_aaaaaa"
ON_READ = ", ".join(f"'write.{what}.mode' = 'merge-on-read'" for what in ("delete", "update", "merge"))


class Table:
    """A table of four files with 25 rows each, in the order of their ids."""

    def __init__(self, spark: SparkSession, lake: IcebergLake, version: int) -> None:
        self.spark, self.lake, self.name = spark, lake, f"s.files_{version}"
        properties = f"'format-version' = '{version}', {ON_READ}"
        self.run(f"CREATE TABLE {self.name} (id INT, v STRING) USING iceberg TBLPROPERTIES ({properties})")
        for start in range(0, 100, 25):
            rows = f"SELECT /*+ COALESCE(1) */ CAST(id AS INT), 'a' FROM range({start}, {start + 25})"
            self.run(f"INSERT INTO {self.name} {rows}")
        self.old = self.current

    @property
    def current(self) -> int:
        self.spark.catalog.refreshTable(self.name)
        return int(self.spark.sql(f"SELECT snapshot_id FROM {self.name}.refs WHERE name = 'main'").collect()[0][0])

    def run(self, statement: str) -> None:
        self.spark.sql(statement)

    def compact(self) -> None:
        options = "map('rewrite-all', 'true')"
        self.run(f"CALL lake.system.rewrite_data_files(table => '{self.name}', options => {options})")

    @contextmanager
    def stage(self) -> Iterator[ChangedFiles]:
        """The files that tell what changed since the table was made."""
        staged = self.lake.stage_changed_files(Relation.parse(self.name), self.old, self.current, ("id", "v"), RUN)
        assert staged is not None
        yield staged
        self.lake.drop_changed_files(staged)
        assert not any(r.schema == STAGE_SCHEMA for r in self.lake.list_pointers())

    def read(self, staged: ChangedFiles, cut_from: int = 1) -> list[tuple[int, str, int]]:
        table = quote(self.lake.name, staged.relation.schema, staged.relation.name)
        frame = read_file_changes(self.spark, table, staged.parts, ("id", "v"), cut_from)
        assert frame.columns == ["id", "v", MULTIPLICITY]
        return sorted(map(tuple, frame.collect()))  # type: ignore[arg-type]


@pytest.fixture(params=[2, 3])
def table(spark: SparkSession, lake: IcebergLake, request: pytest.FixtureRequest) -> Iterator[Table]:
    made = Table(spark, lake, request.param)
    yield made
    spark.sql(f"DROP TABLE {made.name}")


def test_a_deleted_row_is_read_from_its_file(table: Table) -> None:
    table.run(f"DELETE FROM {table.name} WHERE id = 30")
    with table.stage() as staged:
        assert [(p.sign, p.is_hidden, p.rows) for p in staged.parts] == [(-1, True, 25)]
        assert table.read(staged) == [(30, "a", -1)]


def test_an_updated_row_is_read_from_its_files(table: Table) -> None:
    table.run(f"DELETE FROM {table.name} WHERE id = 31")
    table.old = table.current
    table.run(f"UPDATE {table.name} SET v = 'b' WHERE id = 30")
    with table.stage() as staged:
        # The row that was hidden before is hidden in both, and comes to nothing.
        assert [(p.sign, p.is_hidden, p.rows) for p in staged.parts] == [(1, False, 1), (-1, True, 25), (1, True, 25)]
        assert table.read(staged) == [(30, "a", -1), (30, "b", 1)]


def test_values_are_looked_for_in_files_that_may_hold_them(table: Table) -> None:
    delete_by_equality(table.spark, table.name, [{"id": 30}, {"id": 60}, {"id": 1000}])
    with table.stage() as staged:
        # Between 30 and 1000; the first file ends before.
        assert [(p.sign, p.is_hidden, p.rows) for p in staged.parts] == [(-1, True, 75)]
        assert table.read(staged) == [(30, "a", -1), (60, "a", -1)]


def test_compactions_cost_nothing(table: Table) -> None:
    table.run(f"DELETE FROM {table.name} WHERE id = 30")
    table.compact()
    table.run(f"DELETE FROM {table.name} WHERE id = 31")
    table.run(f"INSERT INTO {table.name} VALUES (7, 'c')")
    with table.stage() as staged:
        assert [(p.sign, p.is_hidden, p.rows) for p in staged.parts] == [(-1, True, 25), (1, False, 1), (-1, True, 99)]
        assert table.read(staged) == [(7, "c", 1), (30, "a", -1), (31, "a", -1)]
    table.old = table.current
    table.compact()
    with table.stage() as staged:
        assert staged.parts == ()


def test_a_file_that_is_written_again_and_again_is_read_once(table: Table) -> None:
    table.run(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('write.update.mode' = 'copy-on-write')")
    for value in ("b", "c", "d"):
        table.run(f"UPDATE {table.name} SET v = '{value}' WHERE id = 30")
    with table.stage() as staged:
        assert [(p.sign, p.is_hidden, p.rows) for p in staged.parts] == [(1, False, 25), (-1, False, 25)]
        has_ids = table.name.endswith("3")
        assert [p.has_row_ids for p in staged.parts] == [has_ids, has_ids]
        for cut_from in (1, 1000):
            assert table.read(staged, cut_from) == [(30, "a", -1), (30, "d", 1)]


def test_row_ids_tell_rows_that_were_only_written_anew(spark: SparkSession, lake: IcebergLake) -> None:
    table = Table(spark, lake, 3)
    table.run(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('write.update.mode' = 'copy-on-write')")
    # The row has another last change, and the same values all the same.
    table.run(f"UPDATE {table.name} SET v = 'a' WHERE id = 30")
    with table.stage() as staged:
        assert table.read(staged) == []
        name = quote(lake.name, staged.relation.schema, staged.relation.name)
        both = f"SELECT _row_id, _last_updated_sequence_number FROM {name}"
        ids = [set(map(tuple, spark.sql(f"{both} VERSION AS OF {p.snapshot_id}").collect())) for p in staged.parts]
        assert len(ids[0] & ids[1]) == 24 and len({row_id for row_id, _ in ids[0] | ids[1]}) == 25
    spark.sql(f"DROP TABLE {table.name}")
