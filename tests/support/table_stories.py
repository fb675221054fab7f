"""Random stories of a table, as Spark and others write them.

Copy-on-write and merge-on-read, compactions, other columns and partitions, equality deletes, files that go and come
back, versions of the format, and steps back in time.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

COLUMNS = ("id", "v", "d", "p")
_LAYOUTS = ("", "PARTITIONED BY (p)", "PARTITIONED BY (bucket(2, id))", "PARTITIONED BY (p, truncate(1, v))")
_MODES = ("copy-on-write", "merge-on-read")


class TableStory:
    """A table, and what happens to it: the same for the same seed."""

    def __init__(self, session: SparkSession, name: str, seed: int) -> None:
        self.session, self.name, self.seed, self.make = session, name, seed, random.Random(seed)
        version, layout = seed % 2 + 2, self.make.choice(_LAYOUTS)
        self.told = [f"version {version}", layout]
        self.version, self.is_renamed = version, False
        self._rows: dict[int, Counter[Any]] = {}
        granularity = self.make.choice(("file", "partition"))
        session.sql(
            f"CREATE TABLE {name} (id INT, v STRING, d DOUBLE, p INT) USING iceberg {layout} TBLPROPERTIES"
            f" ('format-version' = '{version}', 'write.delete.granularity' = '{granularity}',"
            " 'write.spark.fanout.enabled' = 'true', 'write.distribution-mode' = 'none')"
        )
        self.insert()

    # --- what can happen ----------------------------------------------------------------------------------------------

    def insert(self) -> None:
        self._run(f"INSERT INTO {self.name} {self._columns} {self._select(self.make.randint(1, 12))}")

    def delete(self) -> None:
        self._set_mode()
        self._run(f"DELETE FROM {self.name} WHERE {self._condition()}")

    def update(self) -> None:
        self._set_mode()
        self._run(f"UPDATE {self.name} SET v = {self._text()} WHERE {self._condition()}")

    def merge(self) -> None:
        self._set_mode()
        ids = sorted({self.make.randint(0, 30) for _ in range(4)})
        rows = ", ".join(
            f"(CAST({i} AS INT), {self._text()}, {self._number()}, {self.make.randint(0, 2)})" for i in ids
        )
        added = "INSERT (id, v, d, p) VALUES (s.id, s.v, s.d, s.p)"
        self._run(
            f"MERGE INTO {self.name} t USING (SELECT * FROM VALUES {rows} AS s(id, v, d, p)) s ON t.id = s.id"
            f" WHEN MATCHED AND s.p = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN {added}"
        )

    def overwrite(self) -> None:
        self._run(f"INSERT OVERWRITE {self.name} {self._columns} {self._select(3)}")

    def truncate(self) -> None:
        self._run(f"DELETE FROM {self.name}")

    def compact(self) -> None:
        options = self.make.choice(("'rewrite-all', 'true'", "'delete-file-threshold', '1'"))
        self._run(f"CALL lake.system.rewrite_data_files(table => '{self.name}', options => map({options}))")

    def compact_deletes(self) -> None:
        self._run(
            f"CALL lake.system.rewrite_position_delete_files(table => '{self.name}',"
            " options => map('rewrite-all', 'true'))"
        )

    def compact_manifests(self) -> None:
        self._run(f"CALL lake.system.rewrite_manifests('{self.name}')")

    def add_column(self) -> None:
        self._run(f"ALTER TABLE {self.name} ADD COLUMN more_{self.make.randint(0, 10**9)} INT")

    def lay_out(self) -> None:
        fields = {"id_bucket_3": "bucket(3, id)", "v_trunc_2": "truncate(2, v)", "p": "p"}
        there = [field.name() for field in load_table(self.session, self.name).spec().fields()]
        name = self.make.choice(list(fields))
        if there and self.make.random() < 0.5:
            self._run(f"ALTER TABLE {self.name} DROP PARTITION FIELD {there[0]}")
        elif name not in there:
            self._run(f"ALTER TABLE {self.name} ADD PARTITION FIELD {fields[name]}")

    def upgrade(self) -> None:
        self._run(f"ALTER TABLE {self.name} SET TBLPROPERTIES ('format-version' = '3')")

    def step_back(self) -> None:
        earlier = self.make.choice(self.list_snapshots())
        self._run(f"CALL lake.system.set_current_snapshot('{self.name}', {earlier})")

    def delete_by_id(self) -> None:
        deleted = [{"id": self.make.choice((None, *range(30)))} for _ in range(self.make.randint(1, 3))]
        delete_by_equality(self.session, self.name, deleted, self.make.randint(0, 2))
        self.told.append("delete by id")

    def delete_by_text(self) -> None:
        values = {"v": self.make.choice((None, "a", "b")), "p": self.make.randint(0, 2)}
        delete_by_equality(self.session, self.name, [values], values["p"])
        self.told.append(f"delete by {values}")

    def readd_file(self) -> None:
        """Remove a file and add it once more: it has the rows of before, and deletes of before hide none of them."""
        table = load_table(self.session, self.name)
        files = table.newScan().planFiles().iterator()
        if files.hasNext():
            file = files.next().file().copy()
            table.newDelete().deleteFile(file).commit()
            table.newAppend().appendFile(file).commit()
            self.told.append("a file went and came back")

    def drop_and_add_column(self) -> None:
        """The same name, but another column."""
        self.is_renamed = True
        self._run(f"ALTER TABLE {self.name} DROP COLUMN d")
        self._run(f"ALTER TABLE {self.name} ADD COLUMN d DOUBLE")

    def go_on(self, certain: Sequence[Event], steps: int) -> None:
        """Let things happen, one after the other: some that certainly do, and so many others as they come."""
        events = [*certain, *self.make.choices(list(EVENTS), weights=list(EVENTS.values()), k=steps)]
        self.make.shuffle(events)
        for event in events:
            event(self)
            self.session.catalog.refreshTable(self.name)

    # --- what is there ------------------------------------------------------------------------------------------------

    def list_snapshots(self) -> list[int]:
        rows = self.session.sql(f"SELECT snapshot_id FROM {self.name}.snapshots ORDER BY committed_at").collect()
        return [row[0] for row in rows]

    def read_rows(self, snapshot: int) -> Counter[Any]:
        """The rows of a snapshot, by Spark's own reading of it."""
        if snapshot not in self._rows:
            frame = self.session.sql(f"SELECT id, v, d, p FROM {self.name} VERSION AS OF {snapshot}")
            self._rows[snapshot] = Counter(plain(row) for row in frame.collect())
        return self._rows[snapshot]

    # --- how it is said -----------------------------------------------------------------------------------------------

    _columns = "(id, v, d, p)"

    def _run(self, statement: str) -> None:
        self.told.append(statement)
        self.session.sql(statement)

    def _set_mode(self) -> None:
        mode = self.make.choice(_MODES)
        modes = ", ".join(f"'write.{what}.mode' = '{mode}'" for what in ("delete", "update", "merge"))
        self._run(f"ALTER TABLE {self.name} SET TBLPROPERTIES ({modes})")

    def _select(self, rows: int) -> str:
        values = ", ".join(
            f"(CAST({self.make.choice(('NULL', *range(30)))} AS INT), {self._text()}, {self._number()},"
            f" {self.make.randint(0, 2)})"
            for _ in range(rows)
        )
        return f"SELECT /*+ COALESCE({self.make.randint(1, 2)}) */ * FROM VALUES {values} AS t(id, v, d, p)"

    def _text(self) -> str:
        return self.make.choice(("'a'", "'b'", "'é𝄞'", "''", "CAST(NULL AS STRING)"))

    def _number(self) -> str:
        return self.make.choice(("0.0D", "-0.0D", "1.5D", "double('NaN')", "CAST(NULL AS DOUBLE)"))

    def _condition(self) -> str:
        return self.make.choice(
            (
                f"id % 5 = {self.make.randint(0, 4)}",
                f"id = {self.make.randint(0, 29)}",
                f"p = {self.make.randint(0, 2)}",
                f"v = {self._text()}",
                "id IS NULL",
            )
        )


Event = Callable[[TableStory], None]
# What can happen, and how often it does.
EVENTS: dict[Event, float] = {
    TableStory.insert: 5,
    TableStory.delete: 6,
    TableStory.update: 5,
    TableStory.merge: 4,
    TableStory.delete_by_id: 4,
    TableStory.delete_by_text: 3,
    TableStory.compact: 2,
    TableStory.compact_deletes: 1,
    TableStory.compact_manifests: 1.5,
    TableStory.overwrite: 1,
    TableStory.truncate: 0.3,
    TableStory.add_column: 0.7,
    TableStory.lay_out: 1.5,
    TableStory.upgrade: 0.6,
    TableStory.step_back: 0.7,
    TableStory.readd_file: 1,
    TableStory.drop_and_add_column: 0.2,
}


def plain(row: Any) -> tuple[Any, ...]:
    """A row that equals another exactly if Spark shows the same: NaN is NaN, and -0.0 is not 0.0."""
    return tuple(repr(value) for value in row)


def load_table(session: SparkSession, name: str) -> Any:
    """The table as Iceberg's Java library has it."""
    java: Any = session._jvm
    return java.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session._jsparkSession, name)


def delete_by_equality(
    session: SparkSession, name: str, rows: Sequence[Mapping[str, Any]], partition: int | None = None
) -> None:
    """Hide the rows with these values as Flink does, in one partition: neither Spark nor pyiceberg would."""
    java: Any = session._jvm
    table = load_table(session, name)
    names = java.java.util.ArrayList()
    for column in rows[0]:
        names.add(column)
    columns = table.schema().select(names)
    gateway: Any = session.sparkContext._gateway
    ids = gateway.new_array(java.int, len(rows[0]))
    for place, column in enumerate(rows[0]):
        ids[place] = columns.findField(column).fieldId()
    parquet = java.org.apache.iceberg.FileFormat.fromString("parquet")
    factory = java.org.apache.iceberg.data.GenericFileWriterFactory.Builder(table)
    factory = factory.deleteFileFormat(parquet).equalityFieldIds(ids).equalityDeleteRowSchema(columns).build()
    key = _build_partition(java, table, rows[0], partition)
    places = java.org.apache.iceberg.io.OutputFileFactory.builderFor(table, 1, 1).build()
    writer = factory.newEqualityDeleteWriter(places.newOutputFile(table.spec(), key), table.spec(), key)
    for row in rows:
        record = java.org.apache.iceberg.data.GenericRecord.create(columns)
        for column, value in row.items():
            record.setField(column, value)
        writer.write(record)
    writer.close()
    table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()


def _build_partition(java: Any, table: Any, values: Mapping[str, Any], partition: int | None) -> Any:
    """The partition in which a row with these values is, one of them where others would do too."""
    row = java.org.apache.iceberg.data.GenericRecord.create(table.schema())
    for column, value in {**({} if partition is None else {"p": partition}), **values}.items():
        row.setField(column, value)
    key = java.org.apache.iceberg.PartitionKey(table.spec(), table.schema())
    key.partition(java.org.apache.iceberg.data.InternalRecordWrapper(table.schema().asStruct()).wrap(row))
    return key
