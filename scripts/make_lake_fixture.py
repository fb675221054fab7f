"""Makes a lake that has something of everything, and packs it for tests/fixtures: what later versions must open.

    PYTHONPATH=src:tests .venv/bin/python scripts/make_lake_fixture.py tests/fixtures/lake_0_1

The folder holds the projects as they are at the end. What is packed is their lakes, state, caches and the files that
they were made from, and in rows.json the rows that readers saw: of every relation at the end, and of an environment at
each of its checkpoints. A lake that is kept is never made again: a newer sqb makes one more, beside it.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqb.project.config.connections.lake_location import LakeLocation
from sqb.project.config.connections.model import Connection, SparkSettings
from sqb.spark.engine import Engine
from sqb.spark.session.local import start_engine
from support.old_lake import OldProject, folder_to_make_in, pack, use_fake_dbt

# Texts of before, by the texts that the projects have now.
EARLIER: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "shop": {
        "models/details.sql": {", initial(c.name) AS initial": ""},
        "models/orders_log.sql": {", day": ""},
        "models/customers_history.sql": {", region": ""},
        "models/events_merged.sql": {", upper(kind) AS loud": ""},
        "models/events_replayed.sql": {"value * 2": "value * 1"},
        "seeds/regions.csv": {"west,\n": ""},
    },
    "team": {"models/merged.sql": {"n + 1": "n"}, "models/windowed.sql": {"count(*)": "sum(n)"}},
    "feeds": {
        "orders.json": {', {"id": 2, "who": "b", "amount": 7}': ""},
        "visits.txt": {"7": "3"},
    },
    "dbt": {"dbt/models/staging/stg.sql": {"select id": "select id, 1 as one"}},
}
ON_READ = ", ".join(f"'write.{what}.mode' = 'merge-on-read'" for what in ("delete", "update", "merge"))


class Maker(OldProject):
    """One project being made."""

    def __init__(self, folder: Path, engine: Engine, final: Path) -> None:
        super().__init__(folder, engine)
        self.name, self.final = folder.name, final / folder.name
        self.seen: dict[str, Any] = {}

    def put_earlier_texts(self) -> None:
        for path, changes in EARLIER[self.name].items():
            text = (self.final / path).read_text()
            for now, before in changes.items():
                assert now in text, path
                text = text.replace(now, before)
            self.put(path, text)

    def put_final_texts(self) -> None:
        for path in EARLIER[self.name]:
            self.put(path, (self.final / path).read_text())

    def run_sql(self, *statements: str) -> None:
        for statement in statements:
            self.sql(statement)

    def note(self, what: str, relations: list[str]) -> None:
        """What readers see now."""
        self.seen[what] = {relation: self.rows(relation) for relation in relations}

    def note_all(self) -> None:
        self.note("now", [r for r in self.sandbox.relations() if "_sqlbuild" not in r])


def make_shop(shop: Maker) -> None:
    shop.put_earlier_texts()
    shop.run_sql(
        "CREATE NAMESPACE raw",
        "CREATE TABLE raw.orders (id INT, customer INT, amount DECIMAL(10,2), day DATE, seq BIGINT) "
        f"TBLPROPERTIES ('format-version' = '2', {ON_READ})",
        "CREATE TABLE raw.customers (id INT, name STRING, region STRING) "
        f"TBLPROPERTIES ('format-version' = '3', {ON_READ})",
        "CREATE TABLE raw.returns (id INT, why STRING) TBLPROPERTIES ('format-version' = '2')",
        "CREATE TABLE raw.events (seq BIGINT, at TIMESTAMP, kind STRING, value DOUBLE, tags MAP<STRING, ARRAY<INT>>) "
        "USING iceberg PARTITIONED BY (days(at))",
        "INSERT INTO raw.orders SELECT /*+ COALESCE(1) */ CAST(id AS INT), CAST(id % 4 AS INT), "
        "CAST(id * 3.5 - 5 AS DECIMAL(10,2)), date_add(DATE '2024-01-01', CAST(id % 5 AS INT)), id FROM range(1, 21)",
        "INSERT INTO raw.customers SELECT /*+ COALESCE(1) */ * FROM VALUES (0, 'Ada', 'north'), (1, 'Bob', 'south'), "
        "(2, 'Cy', 'north'), (3, NULL, 'south'), (4, 'Di', NULL) AS t(a, b, c)",
        "INSERT INTO raw.returns SELECT /*+ COALESCE(1) */ * FROM "
        "VALUES (1, 'late'), (2, 'broken'), (3, 'late') AS t(a, b)",
        "INSERT INTO raw.events SELECT id, timestamp_seconds(1704067200 + id * 40000), concat('k', id % 2), id / 4, "
        "map('a', array(CAST(id AS INT), NULL)) FROM range(8)",
    )
    shop.sqb("build", "--store-failures")
    shop.run_sql(
        "DELETE FROM raw.orders WHERE id IN (3, 4)",
        "UPDATE raw.orders SET amount = amount + 1 WHERE id = 7",
        "INSERT INTO raw.orders VALUES (21, 1, 8.00, DATE '2024-01-06', 21), (21, 1, 8.00, DATE '2024-01-06', 22)",
        "DELETE FROM raw.orders WHERE seq = 22",
        "UPDATE raw.customers SET region = 'north' WHERE id = 1",
        "DELETE FROM raw.customers WHERE id = 4",
        "INSERT INTO raw.events SELECT id, timestamp_seconds(1704067200 + id * 40000), 'k2', id / 4, NULL "
        "FROM range(8, 10)",
    )
    delete_by_equality(shop, "raw.returns", 2)
    shop.sqb("build")
    shop.put_final_texts()
    shop.sqb("build")
    shop.sqb("build", "--target", "dev")
    shop.run_sql(
        "INSERT INTO raw.orders VALUES (22, 2, 30.00, DATE '2024-01-07', 23)",
        "UPDATE raw.customers SET name = 'Bo' WHERE id = 1",
        "INSERT INTO raw.events VALUES (10, TIMESTAMP '2024-01-06 00:00:00', 'k0', 2.5, map())",
    )
    shop.sqb("build", "--target", "dev")
    shop.sqb("build")
    for target in ("prod", "dev"):
        shop.sqb("plan", "--target", target)
    shop.note_all()


def delete_by_equality(maker: Maker, relation: str, key: int) -> None:
    """Hide the rows with a key as Flink does: neither Spark nor pyiceberg would."""
    sessions = maker.sandbox._sessions
    session = sessions.take()
    java = session._jvm
    table = java.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session._jsparkSession, relation)
    names = java.java.util.ArrayList()
    names.add("id")
    columns = table.schema().select(names)
    ids = session.sparkContext._gateway.new_array(java.int, 1)
    ids[0] = columns.findField("id").fieldId()
    parquet = java.org.apache.iceberg.FileFormat.fromString("parquet")
    factory = java.org.apache.iceberg.data.GenericFileWriterFactory.Builder(table)
    factory = factory.deleteFileFormat(parquet).equalityFieldIds(ids).equalityDeleteRowSchema(columns).build()
    place = java.org.apache.iceberg.io.OutputFileFactory.builderFor(table, 1, 1).build().newOutputFile()
    writer = factory.newEqualityDeleteWriter(place, table.spec(), None)
    record = java.org.apache.iceberg.data.GenericRecord.create(columns)
    record.setField("id", key)
    writer.write(record)
    writer.close()
    table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()
    sessions.give_back(session)


def make_team(team: Maker) -> None:
    views = ["words", "base", "shown", "worded", "merged", "tracked", "logged", "history", "windowed"]
    dev = [f"dev__dev.{view}" for view in views]
    team.put_earlier_texts()
    team.run_sql(
        "CREATE NAMESPACE raw",
        "CREATE TABLE raw.x AS SELECT * FROM VALUES (1, 1, 10), (2, 1, 20), (3, 2, 60), (4, 2, -1) AS t(id, day, n)",
    )
    team.sqb("build")
    team.note("checkpoint 1", dev)
    team.run_sql("UPDATE raw.x SET n = 21 WHERE id = 2", "INSERT INTO raw.x VALUES (5, 3, 7)")
    team.sqb("build")
    team.note("checkpoint 2", dev)
    team.put_final_texts()
    team.sqb("build", "--virtual-env", "pr_1")
    team.sqb("promote", "--from", "pr_1", "--to", "dev")
    team.note("checkpoint 3", dev)
    team.run_sql("DELETE FROM raw.x WHERE id = 1", "INSERT INTO raw.x VALUES (6, 3, 8)")
    team.sqb("build")
    team.sqb("build", "--virtual-env", "pr_1")
    for environment in ("dev", "pr_1"):
        team.sqb("plan", "--virtual-env", environment)
    team.sqb("state", "show")
    team.note("now", [*dev, *(f"dev__pr_1.{view}" for view in views), "raw.x"])


def make_feeds(feeds: Maker) -> None:
    feeds.put_earlier_texts()
    feeds.sqb("build")
    feeds.put_final_texts()
    feeds.sqb("build")
    feeds.sqb("build")
    feeds.note_all()


def make_dbt(shop: Maker) -> None:
    shop.put_earlier_texts()
    dbt = use_fake_dbt(shop.folder)
    for value in (1, 2):
        dbt.commit_source(value)
        done = dbt.dbt("build")
        print(done.out, done.err)
        assert done.code == 0
        shop.put_final_texts()
    assert "planned models: 0 run, 3 current" in dbt.dbt("build").out
    shop.note_all()
    shutil.copy(shop.final / "sqlbuild_project.toml", shop.folder)


def main() -> None:
    fixture = Path(sys.argv[1]).resolve()
    final = fixture / "projects"
    # Moments are noted as Python shows them here.
    os.environ["TZ"] = "UTC"
    time.tzset()
    with tempfile.TemporaryDirectory() as parent:
        folder = folder_to_make_in(Path(parent))
        shutil.copytree(final, folder, dirs_exist_ok=True)
        now = int(time.time())
        for path in folder.rglob("*"):
            os.utime(path, (now, now))
        place = LakeLocation.embedded(Path(parent) / "catalog.db", Path(parent) / "data")
        conf = {
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        }
        connection = Connection(spark=SparkSettings(master="local[2]", conf=conf))
        engine = start_engine(connection, place, Path(parent) / "spark.log", print, 2)
        rows = {}
        try:
            for name, make in (("shop", make_shop), ("team", make_team), ("feeds", make_feeds), ("dbt", make_dbt)):
                maker = Maker(folder / name, engine, final)
                make(maker)
                rows[name] = maker.seen
        finally:
            engine.stop()
        for logs in folder.rglob(".sqb/logs"):
            shutil.rmtree(logs)
        (folder / "rows.json").write_text(json.dumps(rows, indent=1))
        if kept := os.environ.get("KEEP_LAKE"):
            shutil.copytree(folder, kept)
        pack(folder, folder, fixture / "lake.tar.xz")


if __name__ == "__main__":
    main()
