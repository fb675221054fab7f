"""A lake that is damaged, moved, locked away or not a lake says so, and says the way out."""

from __future__ import annotations

import builtins
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from contract.lakes import ID_AND_NAME, ORDERS, SqliteProbe, open_lake, state, write
from sqb.errors.lake import LakeDamaged, LakeMoved, LakeUnreadable, NewerState, NotACatalog
from sqb.lake.iceberg import IcebergLake
from sqb.project.config.connections.lake_location import LakeLocation


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_text("hello, this is not a database, and it is long enough to be one" * 20)
    lake = open_lake(tmp_path)
    with pytest.raises(NotACatalog) as caught:
        lake.list_pointers()
    assert caught.value.hint
    with pytest.raises(NotACatalog):
        lake.ensure_schemas(["a"])
    with pytest.raises(NotACatalog):
        lake.state.read_fingerprints(["a"])


def test_a_database_of_something_else(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "catalog.db") as connection:
        connection.execute("CREATE TABLE people(name)")
    with pytest.raises(NotACatalog):
        open_lake(tmp_path).list_pointers()


def test_an_empty_file_is_an_empty_lake(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").touch()
    assert open_lake(tmp_path).list_pointers() == {}
    assert open_lake(tmp_path).state.read_fingerprints(["dev"]) == {}


def test_a_moved_lake(sqlite: SqliteProbe, tmp_path: Path) -> None:
    write(sqlite, [[1], ["a"]])
    shutil.copytree(sqlite.root, tmp_path / "copy")
    with pytest.raises(LakeMoved) as caught:
        open_lake(tmp_path / "copy").list_pointers()
    assert str(sqlite.root) in str(caught.value) and caught.value.hint
    assert open_lake(sqlite.root).list_pointers().keys() == {ORDERS}
    (tmp_path / "link").symlink_to(sqlite.root)
    assert open_lake(tmp_path / "link").list_pointers().keys() == {ORDERS}


@pytest.mark.parametrize("damage", ["missing", "empty", "cut off", "not JSON", "a list", "another document", "gzip"])
def test_damaged_metadata(sqlite: SqliteProbe, damage: str) -> None:
    write(sqlite, [[1], ["a"]])
    pointer = sqlite.lake.list_pointers()[ORDERS]
    path = Path(pointer.location)
    text = path.read_bytes()
    path.unlink()
    texts = {
        "empty": b"",
        "cut off": text[: len(text) // 2],
        "not JSON": b"<html>",
        "a list": b"[]",
        "another document": b'{"a": 1}',
        "gzip": b"\x1f\x8b and then something else",
    }
    if damage != "missing":
        path.write_bytes(texts[damage])
    with pytest.raises(LakeDamaged, match=r"shop\.orders") as caught:
        sqlite.lake.read_tables([pointer])
    assert str(path) in str(caught.value) and caught.value.hint


def test_metadata_that_is_missing_when_a_build_comes_to_it(sqlite: SqliteProbe) -> None:
    first = write(sqlite, [[1], ["a"]])
    Path(sqlite.lake.list_pointers()[ORDERS].location).unlink()
    with pytest.raises(LakeDamaged):
        open_lake(sqlite.root).stage(ORDERS, ID_AND_NAME, first.state.base, "r2")


def test_a_catalog_that_may_not_be_read(sqlite: SqliteProbe, monkeypatch: pytest.MonkeyPatch) -> None:
    write(sqlite, [[1], ["a"]])
    monkeypatch.setattr(os, "access", lambda path, mode, **more: False)
    with pytest.raises(LakeUnreadable) as caught:
        sqlite.lake.list_pointers()
    assert str(sqlite.lake.place.database) in str(caught.value) and caught.value.hint
    with pytest.raises(LakeUnreadable):
        open_lake(sqlite.root).ensure_schemas(["a"])


def test_a_folder_in_the_place_of_the_catalog(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").mkdir()
    (tmp_path / "catalog.db" / "file").touch()
    with pytest.raises(LakeUnreadable):
        open_lake(tmp_path).list_pointers()
    with pytest.raises(LakeUnreadable):
        open_lake(tmp_path).ensure_schemas(["a"])


def test_a_file_in_the_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "lake").touch()
    lake = IcebergLake(LakeLocation.embedded(tmp_path / "lake" / "catalog.db", tmp_path / "lake" / "data"))
    assert lake.list_pointers() == {}
    with pytest.raises(LakeUnreadable):
        lake.ensure_schemas(["a"])


def test_metadata_that_may_not_be_read(sqlite: SqliteProbe, monkeypatch: pytest.MonkeyPatch) -> None:
    write(sqlite, [[1], ["a"]])
    pointers = sqlite.lake.list_pointers().values()
    real = builtins.open

    def refuse(path: Any, *args: Any, **more: Any) -> Any:
        if str(path).endswith(".metadata.json"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *args, **more)

    monkeypatch.setattr(builtins, "open", refuse)
    with pytest.raises(LakeUnreadable):
        sqlite.lake.read_tables(pointers)


def test_state_of_a_newer_sqb(sqlite: SqliteProbe) -> None:
    from contract.test_state import fingerprint, result

    sqlite.lake.state.append_fingerprints([fingerprint("a")])
    table = sqlite.catalog.load_table("dev._sqlbuild_fingerprints")
    assert table.properties["sqb.state_version"] == "1"
    with table.transaction() as transaction:
        transaction.set_properties({"sqb.state_version": "2"})
    for lake in (open_lake(sqlite.root), sqlite.lake):
        with pytest.raises(NewerState, match="version 2") as caught:
            lake.state.read_fingerprints(["dev"])
        assert caught.value.hint and "upgrade" in caught.value.hint
        with pytest.raises(NewerState):
            lake.state.append_fingerprints([fingerprint("b")])
        lake.state.append_node_results([result("a", "r1", 0)])


def test_tables_of_other_catalogs_in_the_same_database(sqlite: SqliteProbe) -> None:
    write(sqlite, [[1], ["a"]])
    with sqlite3.connect(str(sqlite.lake.place.database)) as connection:
        connection.execute("INSERT INTO iceberg_tables VALUES ('theirs', 'shop', 'x', '/nowhere', NULL, 'TABLE')")
    assert set(sqlite.lake.list_pointers()) == {ORDERS} and state(sqlite).rows == 1
