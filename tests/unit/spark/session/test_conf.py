"""The settings a session starts with: a laptop's defaults below, the user's own on top."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sqb.project.config.connections.lake_location import locate_lake
from sqb.project.config.connections.model import CatalogSettings, Connection, SparkSettings
from sqb.project.config.session_settings import RESULT_SETTINGS
from sqb.spark.session.catalog_conf import build_sqlite_address
from sqb.spark.session.conf import build_session_conf, build_shared_conf, count_cores
from sqb.spark.session.java_options import JAVA_OPTIONS


def conf_of(connection: Connection) -> dict[str, str]:
    place = replace(locate_lake(connection, Path("/p")), name="lake")
    return build_session_conf(connection, place, Path("/tmp/x"), 4)


def test_the_catalog_is_the_default_and_is_not_cached() -> None:
    conf = conf_of(Connection())
    assert conf["spark.master"] == "local[*]"
    assert conf["spark.sql.defaultCatalog"] == "lake"
    assert conf["spark.sql.catalog.lake.warehouse"] == "/p/lake/data"
    assert conf["spark.sql.catalog.lake.cache-enabled"] == "false"
    assert conf["spark.sql.catalog.lake.jdbc.schema-version"] == "V1"


def test_what_can_change_a_result_is_set_and_the_projects_word_wins() -> None:
    assert RESULT_SETTINGS.items() <= conf_of(Connection()).items()
    conf = conf_of(Connection(spark=SparkSettings(conf={"spark.sql.ansi.enabled": "false"})))
    assert (conf["spark.sql.ansi.enabled"], conf["spark.sql.session.timeZone"]) == ("false", "UTC")


def test_the_users_settings_win() -> None:
    spark = SparkSettings(master="local[3]", conf={"spark.ui.enabled": "true", "spark.sql.shuffle.partitions": "7"})
    catalog = CatalogSettings(options={"clients": "9"})
    conf = conf_of(Connection(spark=spark, catalog=catalog))
    assert conf["spark.ui.enabled"] == "true"
    assert conf["spark.sql.shuffle.partitions"] == "7"
    assert conf["spark.sql.catalog.lake.clients"] == "9"


PLANS_ALONE = "-Diceberg.scan.plan-in-worker-pool=false"


def test_manifests_in_a_folder_are_read_by_the_thread_that_plans() -> None:
    assert PLANS_ALONE in conf_of(Connection())[JAVA_OPTIONS].split()


@pytest.mark.parametrize(
    "connection",
    [
        Connection(catalog=CatalogSettings(warehouse="s3://bucket/lake")),
        Connection(spark=SparkSettings(conf={"spark.sql.catalog.other.uri": "https://host"})),
    ],
)
def test_manifests_far_away_are_read_by_several(connection: Connection) -> None:
    assert PLANS_ALONE not in conf_of(connection)[JAVA_OPTIONS]


def test_texts_are_taken_as_they_are_written() -> None:
    connection = Connection(spark=SparkSettings(conf={"spark.sql.variable.substitute": "true"}))
    assert conf_of(connection)["spark.sql.variable.substitute"] == "false"
    for has_catalog in (True, False):
        place = replace(locate_lake(connection, Path("/p")), name="lake")
        assert build_shared_conf(connection, place, 4, has_catalog)["spark.sql.variable.substitute"] == "false"


def test_a_cluster_keeps_its_own_sizes() -> None:
    conf = conf_of(Connection(spark=SparkSettings(master="spark://host:7077")))
    for key in ("spark.driver.memory", "spark.driver.bindAddress", "spark.sql.shuffle.partitions"):
        assert key not in conf


@pytest.mark.parametrize(("master", "expected"), [("local", 1), ("local[3]", 3), ("local[4, 2]", 4)])
def test_the_cores_of_a_local_master(master: str, expected: int) -> None:
    assert count_cores(master) == expected


def test_a_question_mark_in_a_path_is_no_option() -> None:
    options = "?journal_mode=WAL&busy_timeout=30000"
    assert build_sqlite_address(Path("/a b/c%20.db")) == f"jdbc:sqlite:/a b/c%20.db{options}"
    assert build_sqlite_address(Path("/a?b/c.db")) == f"jdbc:sqlite:file:/a%3Fb/c.db{options}"
