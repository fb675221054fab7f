"""Views that sqb writes itself are views to Spark: pinned to a snapshot, whatever their columns are called."""

from __future__ import annotations

from pyspark.sql import SparkSession

from sqb.build.node.render import format_pinned
from sqb.lake.iceberg import IcebergLake
from sqb.lake.port import ViewSwap
from sqb.names import Relation, quote

TABLE = Relation("s", "odd_columns")
VIEW = Relation("s__pr_1", "odd_columns")


def show(lake: IcebergLake, before: str = "") -> str:
    """Move the view to the table as it is now."""
    state = lake.read_tables([lake.list_pointers()[TABLE]])[TABLE]
    text = f"SELECT * FROM {format_pinned(quote('lake', TABLE.schema, TABLE.name), state)}"
    move = ViewSwap(VIEW, text, lake.read_view_columns([TABLE])[TABLE], {"sqb.model": "odd", "comment": "odd"}, before)
    return lake.swap_views([move])[VIEW]


def test_a_view_shows_the_snapshot_that_it_was_made_for(spark: SparkSession, lake: IcebergLake) -> None:
    spark.sql(
        "CREATE TABLE lake.s.odd_columns (`Id` BIGINT NOT NULL COMMENT 'the, \"key\"', `a,b` STRING, `größe` INT,"
        " `q\"u``o'te` STRING, `sp ace.dot` DECIMAL(10, 2), tags ARRAY<STRUCT<`x,y`: INT, z: STRING>> NOT NULL,"
        " m MAP<STRING, ARRAY<INT>>, st STRUCT<inner: STRUCT<v: TIMESTAMP>, n: TIMESTAMP_NTZ>) USING iceberg"
    )
    row = "(1, 'x', 2, 'q', 1.5, array(named_struct('x,y', 1, 'z', 'b')), map('k', array(1, 2)), NULL)"
    spark.sql(f"INSERT INTO lake.s.odd_columns VALUES {row}")
    first = show(lake)
    expected = spark.table("lake.s.odd_columns").collect()
    assert spark.table("lake.s__pr_1.odd_columns").collect() == expected

    spark.sql(f"INSERT INTO lake.s.odd_columns VALUES {row}")
    assert spark.table("lake.s__pr_1.odd_columns").collect() == expected
    seen = spark.table("lake.s__pr_1.odd_columns").schema
    table = spark.table("lake.s.odd_columns").schema
    assert [(f.name, f.dataType.simpleString()) for f in seen] == [(f.name, f.dataType.simpleString()) for f in table]
    assert seen["Id"].metadata["comment"] == 'the, "key"'

    spark.sql("ALTER TABLE lake.s.odd_columns ADD COLUMN later STRING AFTER `Id`")
    spark.sql("ALTER TABLE lake.s.odd_columns ALTER COLUMN `größe` TYPE BIGINT")
    spark.sql("ALTER TABLE lake.s.odd_columns RENAME COLUMN m TO `M,2`")
    second = show(lake, first)
    assert spark.table("lake.s__pr_1.odd_columns").collect() == spark.table("lake.s.odd_columns").collect()

    # Temporary views of the session are listed too, whosever they are.
    listed = spark.sql("SHOW VIEWS IN lake.s__pr_1").collect()
    views = {row.viewName for row in listed if not row.isTemporary}
    assert views == {"odd_columns"}
    assert "SELECT * FROM" in spark.sql("SHOW CREATE TABLE lake.s__pr_1.odd_columns").first()[0]
    spark.sql("CREATE OR REPLACE VIEW lake.s__pr_1.odd_columns AS SELECT 1 AS one")
    assert lake.list_pointers()[VIEW].location != second
    assert lake.read_tables([lake.list_pointers()[VIEW]])[VIEW].drifted
    spark.sql("DROP VIEW lake.s__pr_1.odd_columns")
    spark.sql("DROP TABLE lake.s.odd_columns PURGE")
