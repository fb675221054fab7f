"""Tables of renamed models: what is due, what it is taken for meanwhile, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqb.build.observe.orphans import find_orphans
from sqb.build.observe.renames import apply_renames, find_renames, project_renames
from sqb.compile.model import Project
from sqb.errors.base import SqbError
from sqb.errors.lake import Conflict
from sqb.errors.project import BadRename
from sqb.lake.port import Column, Shape
from sqb.names import Relation
from sqb.workspace import open_workspace
from support.memory_lake import MemoryLake
from unit.folders import TOML, write

OLD, NEW = Relation("shop", "old"), Relation("shop", "new")
READER = {"models/shop/reader.sql": "SELECT id FROM new"}


def project(folder: Path, files: dict[str, str]) -> Project:
    write(folder, {"sqlbuild_project.toml": TOML, "models/shop/other.sql": "SELECT 1 AS id", **files})
    return open_workspace(folder).project


def lake_with(relation: Relation, model: str) -> MemoryLake:
    lake = MemoryLake()
    put(lake, relation, model)
    return lake


def put(lake: MemoryLake, relation: Relation, model: str) -> None:
    lake.ensure_schemas([relation.schema])
    stage = lake.stage(relation, Shape((Column("id", "long"),)), None, "r1")
    lake.fill(stage, [[1]])
    lake.publish(stage, {"sqb.model": model, "sqb.local_hash": "x", "sqb.run_id": "r1"})


def test_a_table_gets_the_new_name_of_its_model(tmp_path: Path) -> None:
    renamed = project(tmp_path, {"models/shop/new.sql": "-- @renamed_from: old\nSELECT 1 AS id"})
    lake = lake_with(OLD, "shop.old")
    before = lake.list_pointers()
    state = lake.read_tables(before.values())[OLD]
    renames = find_renames(renamed, lake, before)
    assert [(r.model, r.former_model, r.pointer.relation, r.relation) for r in renames] == [
        ("shop.new", "shop.old", OLD, NEW)
    ]
    assert renames[0].text == "shop.new: renamed from shop.old, with its table shop.old"
    projected = project_renames(before, renames)
    assert set(projected) == {NEW} and lake.read_tables(projected.values())[NEW] == state
    assert find_orphans(renamed, lake) == ()
    apply_renames(lake, renames)
    assert set(lake.list_pointers()) == {NEW}
    assert lake.read_tables(lake.list_pointers().values())[NEW] == state
    assert find_renames(renamed, lake, lake.list_pointers()) == ()


def test_a_table_of_something_else_stays(tmp_path: Path) -> None:
    renamed = project(tmp_path, {"models/shop/new.sql": "-- @renamed_from: old\nSELECT 1 AS id"})
    lake = lake_with(OLD, "shop.another")
    assert find_renames(renamed, lake, lake.list_pointers()) == ()


def test_two_tables_are_refused(tmp_path: Path) -> None:
    renamed = project(tmp_path, {"models/shop/new.sql": "-- @renamed_from: old\nSELECT 1 AS id"})
    lake = lake_with(OLD, "shop.old")
    put(lake, NEW, "shop.new")
    with pytest.raises(BadRename) as caught:
        find_renames(renamed, lake, lake.list_pointers())
    assert (caught.value.code, caught.value.at and caught.value.at.file) == ("SQB-R007", "models/shop/new.sql")
    assert "both shop.old and shop.new are there" in caught.value.message
    # Then it is a table without a model, which can be dropped.
    assert [orphan.relation for orphan in find_orphans(renamed, lake)] == [OLD]


def test_a_table_that_moved_meanwhile_is_a_conflict(tmp_path: Path) -> None:
    renamed = project(tmp_path, {"models/shop/new.sql": "-- @renamed_from: old\nSELECT 1 AS id"})
    lake = lake_with(OLD, "shop.old")
    renames = find_renames(renamed, lake, lake.list_pointers())
    lake.append_as_stranger(OLD, [[2]])
    with pytest.raises(Conflict):
        apply_renames(lake, renames)
    assert set(lake.list_pointers()) == {OLD}


def test_readers_are_what_they_were(tmp_path: Path) -> None:
    """Hashes, and the keys of what was read, are by the first name; those of views by the place."""
    view = "-- @kind: view\nSELECT id FROM {}"
    old = project(
        tmp_path / "old",
        {
            "models/shop/old.sql": "SELECT 1 AS id",
            "models/shop/reader.sql": "SELECT id FROM old",
            "models/shop/seen.sql": view.format("old"),
        },
    )
    files = {**READER, "models/shop/seen.sql": view.format("new")}
    new = project(tmp_path / "new", {"models/shop/new.sql": "-- @renamed_from: old\nSELECT 1 AS id", **files})
    plain = project(tmp_path / "plain", {"models/shop/new.sql": "SELECT 1 AS id", **files})
    for name in ("shop.reader", "shop.seen"):
        assert new.nodes[name].local_hash == old.nodes[name].local_hash != plain.nodes[name].local_hash
        assert new.nodes[name].version_hash == old.nodes[name].version_hash
    assert new.nodes["shop.new"].local_hash == old.nodes["shop.old"].local_hash
    assert new.nodes["shop.new"].get_input_key() == "shop.old"
    assert new.nodes["shop.new"].get_input_key(is_by_place=True) == "shop.new"


def test_several_names_and_another_folder(tmp_path: Path) -> None:
    files = {"models/shop/new.sql": "MODEL (renamed_from [middle, raw.first]);\nSELECT 1 AS id"}
    node = project(tmp_path, files).nodes["shop.new"]
    assert node.former_names == ("shop.middle", "raw.first")
    assert node.former_relations == (Relation("shop", "middle"), Relation("raw", "first"))
    assert node.get_input_key() == "raw.first"


def test_an_edit_of_the_line_concerns_readers(tmp_path: Path) -> None:
    before = project(tmp_path, {"models/shop/new.sql": "SELECT 1 AS id", **READER})
    after = project(tmp_path, {"models/shop/new.sql": "-- @renamed_from: old\nSELECT 1 AS id"})
    assert after.nodes["shop.reader"].local_hash != before.nodes["shop.reader"].local_hash


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"models/shop/old.sql": "SELECT 2 AS id"}, "models/shop/old.sql still is"),
        ({"models/shop/more.sql": "-- @renamed_from: old\nSELECT 2 AS id"}, "too"),
        ({"models/shop/more.sql": "SELECT id FROM shop.old"}, "is still read as a table"),
    ],
)
def test_a_name_that_is_in_use_is_refused(tmp_path: Path, files: dict[str, str], says: str) -> None:
    with pytest.raises(SqbError) as caught:
        project(tmp_path, {"models/shop/new.sql": "-- @renamed_from: old\nSELECT 1 AS id", **files})
    assert isinstance(caught.value, BadRename)
    assert says in caught.value.message and caught.value.hint and caught.value.at and caught.value.at.line
