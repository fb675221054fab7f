"""Many views moved at once, without Spark."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from contract.lakes import ID_AND_NAME, ORDERS, IcebergProbe, MemoryProbe, Probe, SqliteProbe, shape, state, write
from sqb.errors.environments import ViewTaken
from sqb.errors.lake import Conflict, LakeError
from sqb.lake.catalog.jdbc_tables import Session
from sqb.lake.port import ViewSwap
from sqb.names import Relation

A, B, C = (Relation("dev__pr_1", name) for name in "abc")
COLUMNS = '[{"id":1,"name":"id","required":false,"type":"long"},{"id":2,"name":"s","required":false,"type":"string"}]'


def move(relation: Relation, text: str | None = "SELECT 1", before: str = "") -> ViewSwap:
    properties = {"sqb.environment": "pr_1", "sqb.model": relation.name, "sqb.version_hash": "abc"}
    return ViewSwap(relation, text, COLUMNS, properties, before)


def there(probe: Probe) -> dict[Relation, str]:
    return {r: p.location for r, p in probe.lake.list_pointers().items() if p.is_view}


def text(probe: Probe, relation: Relation) -> str:
    if isinstance(probe, MemoryProbe):
        return probe.lake.view_text(relation)
    assert isinstance(probe, IcebergProbe)
    document = probe.lake.load_document(probe.lake.list_pointers()[relation])
    (shown,) = (v for v in document["versions"] if v["version-id"] == document["current-version-id"])
    return str(shown["representations"][0]["sql"])


def test_views_are_made_where_there_was_no_schema_and_no_lake(probe: Probe) -> None:
    made = probe.lake.swap_views([move(A), move(B, "SELECT 2")])
    assert made == there(probe)
    assert text(probe, B) == "SELECT 2"


def test_a_view_that_was_made_is_known_by_its_properties_and_columns(probe: Probe) -> None:
    probe.lake.swap_views([move(A)])
    current = state(probe, A)
    assert current.is_view
    assert not current.drifted
    assert {k: v for k, v in current.properties.items() if k != "sqb.view_text"} == move(A).properties
    assert [(c.name, c.type) for c in current.columns] == [("id", '"long"'), ("s", '"string"')]
    assert probe.lake.read_view_columns([A]) == {A: COLUMNS}


def test_views_are_made_replaced_and_removed_at_once(probe: Probe) -> None:
    first = probe.lake.swap_views([move(A), move(B)])
    before = state(probe, A)
    second = probe.lake.swap_views([move(A, "SELECT 3", first[A]), move(B, None, first[B]), move(C)])
    assert second == there(probe)
    assert set(second) == {A, C}
    assert text(probe, A) == "SELECT 3"
    after = state(probe, A)
    assert after.uuid == before.uuid
    assert after.base != before.base


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (move(B, "SELECT 9", "elsewhere"), "replaced"),
        (move(B, None, "elsewhere"), "replaced"),
        (move(C, "SELECT 9", "elsewhere"), "dropped"),
    ],
)
def test_nothing_moves_when_one_view_is_not_where_it_was(probe: Probe, wrong: ViewSwap, why: str) -> None:
    first = probe.lake.swap_views([move(A), move(B)])
    with pytest.raises(Conflict, match=why):
        probe.lake.swap_views([move(A, "SELECT 3", first[A]), wrong])
    assert there(probe) == first
    assert text(probe, A) == "SELECT 1"


def test_a_table_in_the_place_of_a_view_is_not_touched(probe: Probe) -> None:
    write(probe, [[1], ["a"]])
    with pytest.raises(ViewTaken, match=r"shop\.orders is a table"):
        probe.lake.swap_views([move(A), move(ORDERS)])
    with pytest.raises(ViewTaken):
        probe.lake.swap_views([move(ORDERS, None, "anything")])
    assert there(probe) == {}
    assert probe.rows(ORDERS) == [(1, "a")]


def test_a_view_that_somebody_else_made_is_not_touched(probe: Probe) -> None:
    probe.lake.ensure_schemas([A.schema])
    probe.put_view(A, "SELECT 'mine'", {})
    with pytest.raises(ViewTaken, match=r"dev__pr_1\.a"):
        probe.lake.swap_views([move(A)])


def test_a_move_that_was_made_already_is_made_again_without_a_change(probe: Probe) -> None:
    first = probe.lake.swap_views([move(A), move(B)])
    moves = [move(A, "SELECT 3", first[A]), move(B, None, first[B]), move(C)]
    second = probe.lake.swap_views(moves)
    assert probe.lake.swap_views(moves) == second == there(probe)


def test_what_is_not_there_is_removed_already(probe: Probe) -> None:
    assert probe.lake.swap_views([move(A, None), move(B, None, "somewhere")]) == {}


def test_another_text_for_a_view_that_was_made_already_is_refused(probe: Probe) -> None:
    probe.lake.swap_views([move(A)])
    with pytest.raises(ViewTaken):
        probe.lake.swap_views([move(A, "SELECT 2")])
    with pytest.raises(ViewTaken):
        probe.lake.swap_views([replace(move(A), properties={"sqb.environment": "other"})])


def test_columns_for_a_view_on_a_table_are_those_that_it_has_today(probe: Probe) -> None:
    nested = {"type": "array", "elementType": "long", "containsNull": False}
    write(probe, [[1], [[1]]], wanted=shape(("id", "long"), ("Numbers", nested)))
    probe.add_column_as_stranger(ORDERS, "later")
    document = json.loads(probe.lake.read_view_columns([ORDERS, A])[ORDERS])
    assert [f["name"] for f in document] == ["id", "Numbers", "later"]
    assert not any(f["required"] for f in document)
    assert document[1]["type"]["element"] == "long"
    assert document[1]["type"]["element-required"] is False


def test_a_view_carries_what_is_said_of_columns(sqlite: SqliteProbe) -> None:
    described = replace(ID_AND_NAME, columns=tuple(replace(c, comment=f"the {c.name}") for c in ID_AND_NAME.columns))
    write(sqlite, [[1], ["a"]], wanted=described)
    assert [f["doc"] for f in json.loads(sqlite.lake.read_view_columns([ORDERS])[ORDERS])] == ["the id", "the name"]


def test_a_refused_move_leaves_no_files(sqlite: SqliteProbe) -> None:
    first = sqlite.lake.swap_views([move(A)])
    files = sqlite.files()
    with pytest.raises(Conflict):
        sqlite.lake.swap_views([move(A, "SELECT 3", first[A]), move(B, "SELECT 9", "elsewhere")])
    with pytest.raises(ViewTaken):
        sqlite.lake.swap_views([move(B), move(A, "SELECT 9")])
    assert sqlite.files() == files
    assert not (sqlite.root / "data" / "dev__pr_1" / "b").exists()


def test_files_that_the_catalog_names_stay_when_a_move_is_stopped_at_its_very_end(
    sqlite: SqliteProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sqb.lake.catalog import sql

    def stopped(session: Session, catalog: str, pointers: object) -> None:
        session.execute("COMMIT")
        raise KeyboardInterrupt

    monkeypatch.setattr(sql, "delete_rows", stopped)
    with pytest.raises(KeyboardInterrupt):
        sqlite.lake.swap_views([move(A)])
    assert text(sqlite, A) == "SELECT 1"


def test_a_view_whose_file_is_lost_can_be_replaced(sqlite: SqliteProbe) -> None:
    first = sqlite.lake.swap_views([move(A)])
    Path(first[A]).unlink()
    sqlite.lake.swap_views([move(A, "SELECT 2", first[A])])
    assert text(sqlite, A) == "SELECT 2"


def test_five_hundred_views_move_in_half_a_second(sqlite: SqliteProbe) -> None:
    relations = [Relation("dev__pr_1", f"model_{i}") for i in range(500)]
    first = sqlite.lake.swap_views([move(r) for r in relations])
    began = time.perf_counter()
    sqlite.lake.swap_views([move(r, "SELECT 2", first[r]) for r in relations])
    assert time.perf_counter() - began < 1.5  # 0.1 s on a quiet machine


def test_a_lake_without_transactions_moves_views_one_by_one() -> None:
    probe = MemoryProbe()
    probe.lake.transactions = False
    probe.lake.swaps_left = 1
    with pytest.raises(LakeError, match="could not be moved"):
        probe.lake.swap_views([move(A), move(B)])
    assert set(there(probe)) == {A}
    probe.lake.swaps_left = None
    assert probe.lake.swap_views([move(A), move(B)]) == there(probe)


def test_a_lake_with_transactions_moves_none_when_it_fails() -> None:
    probe = MemoryProbe()
    probe.lake.swaps_left = 1
    with pytest.raises(LakeError, match="could not be moved"):
        probe.lake.swap_views([move(A), move(B)])
    assert there(probe) == {}
