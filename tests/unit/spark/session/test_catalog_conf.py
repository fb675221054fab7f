"""What Spark is told of a catalog, by kind; and which jars that takes."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from sqb.project.config.connections.lake_location import LakeLocation
from sqb.project.config.connections.model import Connection, SparkSettings
from sqb.project.config.session_settings import RESULT_SETTINGS
from sqb.spark.session.catalog_conf import build_catalog_conf, is_secret, list_packages
from sqb.spark.session.conf import build_shared_conf
from sqb.spark.session.jars import AWS, ICEBERG, POSTGRES, SQLITE

POSTGRES_URI = "postgresql://ana:s3cr3t%2F@db.example:5433/lake?sslmode=require&schema=ice"


@pytest.fixture(autouse=True)
def no_libpq(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("PGUSER", "PGHOST", "PGPORT", "PGDATABASE", "PGPASSWORD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))


def settings(place: LakeLocation) -> dict[str, str]:
    """The settings of the catalog itself."""
    prefix = f"spark.sql.catalog.{place.name}."
    conf = build_catalog_conf(place, 4)
    assert conf["spark.sql.defaultCatalog"] == place.name
    assert conf[prefix.rstrip(".")] == "org.apache.iceberg.spark.SparkCatalog"
    return {key.removeprefix(prefix): value for key, value in conf.items() if key.startswith(prefix)}


def test_an_embedded_catalog() -> None:
    place = LakeLocation.embedded(Path("/p/catalog.db"), Path("/p/data"))
    assert settings(place) == {
        "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "jdbc.schema-version": "V1",
        "uri": "jdbc:sqlite:/p/catalog.db?journal_mode=WAL&busy_timeout=30000",
        "warehouse": "/p/data",
        "cache-enabled": "false",
        "clients": "4",
    }
    assert list_packages(place) == (ICEBERG, SQLITE)


def test_postgresql_and_an_object_store() -> None:
    options = {"s3.endpoint": "http://127.0.0.1:9000", "s3.secret-access-key": "hush"}
    place = LakeLocation("team", "jdbc", "big", POSTGRES_URI, "s3://bucket/lake", options)
    values = settings(place)
    address = urlsplit(values["uri"].removeprefix("jdbc:"))
    assert (address.scheme, address.netloc, address.path) == ("postgresql", "db.example:5433", "/lake")
    query = {key: value[0] for key, value in parse_qs(address.query).items()}
    assert query["sslmode"] == "require" and query["currentSchema"] == "ice" and query["connectTimeout"] == "5"
    assert (values["jdbc.user"], values["jdbc.password"]) == ("ana", "s3cr3t/")
    assert "s3cr3t" not in values["uri"]
    assert values["io-impl"] == "org.apache.iceberg.aws.s3.S3FileIO"
    assert values["s3.secret-access-key"] == "hush"
    assert list_packages(place) == (ICEBERG, POSTGRES, AWS)


def test_several_hosts() -> None:
    values = settings(LakeLocation("t", "jdbc", "lake", "postgresql://u:p@a,b:5433/db", "/w"))
    assert values["uri"].startswith("jdbc:postgresql://a:5432,b:5433/db?")


def test_libpq_decides_what_an_address_leaves_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "db.example")
    monkeypatch.setenv("PGUSER", "bob")
    monkeypatch.setenv("PGPASSWORD", "hush")
    values = settings(LakeLocation("t", "jdbc", "lake", "postgresql:///db", "/w"))
    assert values["uri"].startswith("jdbc:postgresql://db.example:5432/db?")
    assert (values["jdbc.user"], values["jdbc.password"]) == ("bob", "hush")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("db.example:5432:db:ana:s3:cr\\\\et", "s3:cr\\et"),
        ("*:*:*:*:any", "any"),
        ("#*:*:*:*:any\nother:*:*:ana:x\ndb.example:*:*:ana:second", "second"),
        ("db.example:5432:db:bob:x", None),
        ("db.example:5432:ana:x", None),
    ],
)
def test_passwords_from_libpqs_file(line: str, expected: str | None, tmp_path: Path) -> None:
    file = tmp_path / "pgpass"
    file.touch(0o600)
    file.write_text(line + "\n")
    place = LakeLocation("t", "jdbc", "lake", "postgresql://ana@db.example/db", "/w")
    assert settings(place).get("jdbc.password") == expected
    file.chmod(0o644)
    assert "jdbc.password" not in settings(place)


def test_catalogs_that_spark_reaches_by_their_own_settings() -> None:
    rest = LakeLocation("t", "rest", "lake", "https://h:8181", "prod", {"credential": "id:secret"})
    assert settings(rest) == {
        "type": "rest",
        "uri": "https://h:8181",
        "warehouse": "prod",
        "cache-enabled": "false",
        "credential": "id:secret",
    }
    assert list_packages(rest) == (ICEBERG,)
    hive = LakeLocation("t", "hive", "lake", "thrift://h:9083", "s3://b/w")
    assert (settings(hive)["type"], settings(hive)["uri"]) == ("hive", "thrift://h:9083")
    glue = LakeLocation("t", "glue", "lake", "", "s3://b/w")
    assert settings(glue)["catalog-impl"] == "org.apache.iceberg.aws.glue.GlueCatalog"
    assert list_packages(glue) == (ICEBERG, AWS)
    own = LakeLocation("t", "catalog-impl", "lake", "", "", {"catalog-impl": "com.example.Mine", "x": "y"})
    assert settings(own) == {"catalog-impl": "com.example.Mine", "x": "y", "cache-enabled": "false"}


def test_a_spark_that_has_the_catalog_keeps_its_settings() -> None:
    place = LakeLocation("t", "rest", "lake", "https://h:8181", "prod", {"token": "hush"})
    connection = Connection("t", spark=SparkSettings(remote="sc://h", conf={"spark.sql.shuffle.partitions": "9"}))
    assert build_shared_conf(connection, place, 2, has_catalog=True) == {
        **RESULT_SETTINGS,
        "spark.sql.defaultCatalog": "lake",
        "spark.sql.catalog.lake.cache-enabled": "false",
        "spark.sql.shuffle.partitions": "9",
        "spark.sql.variable.substitute": "false",
        "spark.sql.inMemoryColumnarStorage.partitionPruning": "false",
    }
    assert build_shared_conf(connection, place, 2, has_catalog=False)["spark.sql.catalog.lake.token"] == "hush"


def test_what_a_list_of_processes_must_not_show() -> None:
    assert is_secret("spark.hadoop.fs.s3a.secret.key", "x") and is_secret("a.uri", "postgresql://u:p@h/d")
    assert not is_secret("spark.driver.memory", "1g") and not is_secret("a.uri", "postgresql://u@h/d")
