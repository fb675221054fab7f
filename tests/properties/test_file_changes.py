"""What files tell of a change is what a comparison of all rows says, whatever happened to the table.

A few stories run with every test run; SQB_FILE_STORIES=200 runs so many new ones, and SQB_FILE_SEED=17 one of them.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sqb.lake.iceberg import IcebergLake
from sqb.names import Relation, quote
from sqb.spark.data.changes import MULTIPLICITY
from sqb.spark.data.file_changes import read_file_changes
from sqb.spark.engine import Engine
from support.table_stories import COLUMNS, EVENTS, TableStory, plain

_RUN = "20260101_000000_abcdef"
_FIXED = range(1, 5)


def list_seeds() -> list[int]:
    if "SQB_FILE_SEED" in os.environ:
        return [int(os.environ["SQB_FILE_SEED"])]
    more = int(os.environ.get("SQB_FILE_STORIES", "0"))
    start = int(time.time()) if more else 0
    return [*_FIXED, *range(start, start + more)]


@pytest.fixture(scope="module")
def lake(spark_lake: IcebergLake) -> IcebergLake:
    spark_lake.ensure_schemas(["stories"])
    return spark_lake


@pytest.fixture(scope="module")
def spark(engine: Engine, lake: IcebergLake) -> SparkSession:
    return engine.worker_session()


@pytest.mark.parametrize("seed", list_seeds())
def test_files_tell_the_change(spark: SparkSession, lake: IcebergLake, seed: int) -> None:
    story = TableStory(spark, f"stories.t{seed}", seed)
    try:
        # All together they have every event.
        story.go_on(list(EVENTS)[seed % len(_FIXED) :: len(_FIXED)], 5)
        for old, new in choose_pairs(story, 6):
            check_pair(story, lake, old, new)
    except Exception as error:
        error.add_note("\n".join([f"seed {seed}", *story.told]))
        raise
    spark.sql(f"DROP TABLE stories.t{seed}")


def choose_pairs(story: TableStory, most: int) -> list[tuple[int, int]]:
    """Pairs of snapshots, in any order: the first and the last, and others as they come."""
    snapshots = story.list_snapshots()
    pairs = {(snapshots[0], snapshots[-1])} if len(snapshots) > 1 else set()
    while len(pairs) < min(most, len(snapshots) * (len(snapshots) - 1)):
        old, new = story.make.sample(snapshots, 2)
        pairs.add((old, new))
    return sorted(pairs)


def check_pair(story: TableStory, lake: IcebergLake, old: int, new: int) -> None:
    """Compare what files tell of the change between two snapshots with their rows."""
    staged = lake.stage_changed_files(Relation.parse(story.name), old, new, COLUMNS, _RUN)
    if staged is None:
        assert story.is_renamed, f"{old} to {new} is not told by files"
        return
    counts: Counter[Any] = Counter()
    try:
        if staged.parts:
            table = quote(lake.name, staged.relation.schema, staged.relation.name)
            cut_from = story.make.choice((1, 10**9))
            for row in read_file_changes(story.session, table, staged.parts, COLUMNS, cut_from).collect():
                assert row[MULTIPLICITY] != 0
                counts[plain(row[:-1])] += row[MULTIPLICITY]
    finally:
        lake.drop_changed_files(staged)
    expected = Counter(story.read_rows(new))
    expected.subtract(story.read_rows(old))
    assert {k: n for k, n in counts.items() if n} == {k: n for k, n in expected.items() if n}, (old, new)
