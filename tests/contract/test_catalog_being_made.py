"""A look at a catalog that another process is making at this moment."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from sqb.errors.lake import NotACatalog
from sqb.lake.catalog.sql import NoCatalogTables
from sqb.lake.iceberg import IcebergLake
from sqb.project.config.connections.lake_location import LakeLocation

HALF = "CREATE TABLE iceberg_tables(catalog_name, table_namespace, table_name, metadata_location)"


def lake_on(folder: Path, *statements: str) -> IcebergLake:
    connection = sqlite3.connect(folder / "catalog.db")
    connection.execute("PRAGMA journal_mode=WAL")
    for statement in statements:
        connection.execute(statement)
    connection.close()
    assert (folder / "catalog.db").stat().st_size > 0
    return IcebergLake(LakeLocation.embedded(folder / "catalog.db", folder / "data"))


@pytest.mark.parametrize("statements", [[], [HALF]], ids=["no table yet", "one of its two tables"])
def test_it_is_empty_so_far(tmp_path: Path, statements: list[str]) -> None:
    lake = lake_on(tmp_path, *statements)
    assert lake.list_pointers() == {}
    assert lake.state.read_fingerprints(["s"]) == {}
    assert lake.state.read_node_results(["s"]) == []


def test_it_is_made_between_two_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = lake_on(tmp_path)

    def look_too_early(*_: object) -> None:
        lake_on(tmp_path).ensure_schemas(["s"])
        raise NoCatalogTables("no such table: iceberg_tables")

    monkeypatch.setattr("sqb.lake.catalog.sql.read_pointers", look_too_early)
    monkeypatch.setattr("sqb.lake.catalog.sql.read_locations", look_too_early)
    assert lake.list_pointers() == {}
    assert lake.state.read_fingerprints(["s"]) == {}


def test_somebody_elses_database_is_not_a_catalog(tmp_path: Path) -> None:
    with pytest.raises(NotACatalog):
        lake_on(tmp_path, "CREATE TABLE songs(title)").list_pointers()


def test_the_tables_of_a_catalog_come_all_at_once(tmp_path: Path) -> None:
    lake = lake_on(tmp_path)
    lake.ensure_schemas(["s"])
    assert lake.list_pointers() == {}
    with sqlite3.connect(tmp_path / "catalog.db") as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert names == {"iceberg_tables", "iceberg_namespace_properties"}
