"""Where a lake is, with its secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqb.errors.connections import MissingSecret
from sqb.errors.project import BadValue
from sqb.project.config.connections.lake_location import LakeLocation, locate_lake
from sqb.project.config.connections.model import CatalogSettings, Connection, SparkSettings, resolve_spark
from sqb.project.config.secrets import resolve_address

ROOT = Path("/srv/shop")


def place(**settings: object) -> LakeLocation:
    return locate_lake(Connection("team", CatalogSettings(**settings)), ROOT)  # type: ignore[arg-type]


def test_paths_are_relative_to_the_project() -> None:
    embedded = place()
    assert embedded.database == ROOT / "lake/catalog.db" and embedded.folder == ROOT / "lake/data"
    assert embedded.is_same_lake(LakeLocation.embedded(ROOT / "lake/catalog.db", ROOT / "lake/data"))
    assert (embedded.connection, embedded.uri) == ("team", "sqlite:////srv/shop/lake/catalog.db")
    assert place(uri="sqlite:////srv/c.db", warehouse="file:///srv/d/").folder == Path("/srv/d")


def test_servers_and_object_stores_are_as_they_were_written() -> None:
    team = place(uri="postgresql://anna@db/lake", warehouse="s3://shop/lake/")
    assert team.is_postgres and team.database is None and team.folder is None
    assert (team.uri, team.warehouse) == ("postgresql://anna@db/lake", "s3://shop/lake")
    rest = place(type="rest", uri="https://h:8181", warehouse="shop")
    assert not rest.is_postgres and (rest.warehouse, rest.folder) == ("shop", None)


def test_variables_are_what_they_are_at_the_moment_of_use(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = Connection(
        "team",
        CatalogSettings(uri="postgresql://anna:@@ENV:LAKE_WORD@db/lake", options={"token": "x @@ENV:LAKE_WORD"}),
        SparkSettings(remote="sc://h/;token=@@ENV:LAKE_WORD", conf={"spark.x": "@@ENV:LAKE_WORD"}),
    )
    with pytest.raises(MissingSecret, match="the connection team needs the environment variable LAKE_WORD") as caught:
        locate_lake(connection, ROOT)
    assert caught.value.hint == "set LAKE_WORD, or give the value in sqlbuild_local.toml"
    for secret in ("s3cr3t", "another"):
        monkeypatch.setenv("LAKE_WORD", secret)
        lake = locate_lake(connection, ROOT)
        assert lake.uri == f"postgresql://anna:{secret}@db/lake" and lake.options == {"token": f"x {secret}"}
        assert resolve_spark(connection).conf == {"spark.x": secret}
        assert resolve_spark(connection).remote == f"sc://h/;token={secret}"


def test_what_a_variable_stands_for_is_a_secret_whatever_the_setting_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("WORD", "hunter2"), ("PARTS", "12"), ("STORE", "http://store:9000"), ("SIZE", "2048m")):
        monkeypatch.setenv(name, value)
    lake = place(options={"header.x-auth": "key @@ENV:WORD", "clients": "@@ENV:PARTS", "s3.endpoint": "@@ENV:STORE"})
    assert lake.hide("hunter2 12 http://store:9000") == "*** 12 http://store:9000" and "hunter2" not in repr(lake)
    conf = {
        "spark.redis.auth": "ana:@@ENV:WORD",
        "spark.driver.memory": "@@ENV:SIZE",
        "spark.x": "@@ENV:PARTS",
        "spark.y": "hunter2",
    }
    spark = resolve_spark(Connection("team", spark=SparkSettings(conf=conf)))
    assert spark.from_environment == {"spark.redis.auth": ("hunter2",), "spark.x": ()}
    assert resolve_spark(Connection("team", spark=spark)) == spark


def test_a_variable_that_holds_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOON", "8s")
    with pytest.raises(BadValue, match=r"`s3\.connect-timeout` of the connection team must be a number of seconds"):
        place(options={"s3.connect-timeout": "@@ENV:SOON"})
    monkeypatch.setenv("SOON", "0.5")
    assert place(options={"s3.connect-timeout": "@@ENV:SOON"}).options["s3.connect-timeout"] == "0.5"


def test_no_text_shows_a_secret() -> None:
    lake = place(uri="postgresql://anna:p%40s%2Fs@db/lake?sslpassword=k3y", options={"s3.secret-access-key": "s3cr3t"})
    assert "p%40" not in repr(lake) and "s3cr3t" not in repr(lake)
    assert lake.hide("p@s/s p%40s%2Fs k3y s3cr3t anna db") == "*** *** *** *** anna db"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("postgresql://anna:@@ENV:X@db/lake", "postgresql://anna:p%40s%2Fs%3B%25%3D@db/lake"),
        ("postgresql://@@ENV:X:@@ENV:X@db/lake", "postgresql://p%40s%2Fs%3B%25%3D:p%40s%2Fs%3B%25%3D@db/lake"),
        ("postgresql://db/lake?password=@@ENV:X", "postgresql://db/lake?password=p%40s%2Fs%3B%25%3D"),
        ("sc://@@ENV:HOST/;token=@@ENV:X;use_ssl=true", "sc://h:15002/;token=p%40s%2Fs%3B%25%3D;use_ssl=true"),
        ("https://@@ENV:HOST/@@ENV:PATH_OF_IT", "https://h:15002/api/catalog"),
        ("@@ENV:WHOLE", "postgresql://anna:p%40@db/lake"),
        ("sqlite:///@@ENV:PATH_OF_IT/c.db", "sqlite:///api/catalog/c.db"),
    ],
)
def test_secrets_in_addresses_may_be_made_of_anything(
    written: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"X": "p@s/s;%=", "HOST": "h:15002", "PATH_OF_IT": "api/catalog", "WHOLE": "postgresql://anna:p%40@db/lake"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert resolve_address(written, "the connection team") == meant
