"""Pointers of a REST catalog: what is asked for, and how often."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from sqb.errors.lake import Conflict, LakeDamaged
from sqb.lake.catalog.rest.pointers import LiveLocations, Loaded, RestPointers, fetch
from sqb.lake.port import Pointer
from sqb.names import Relation

TABLES = [Relation("shop", name) for name in "abcdef"]
VIEW = Relation("shop", "v")
OTHER = Relation("theirs", "x")


class Catalog:
    """Relations, and what was asked of them."""

    def __init__(self) -> None:
        self.there = {**dict.fromkeys((*TABLES, OTHER), False), VIEW: True}
        self.damaged: set[Relation] = set()
        self.lists = 0
        self.loads: list[Relation] = []

    def list_relations(self) -> Mapping[Relation, bool]:
        self.lists += 1
        return dict(self.there)

    def load(self, relation: Relation, is_view: bool | None = None) -> Loaded | None:
        self.loads.append(relation)
        entry = self.there.get(relation)
        if relation in self.damaged:
            raise LakeDamaged("damaged")
        return None if entry is None else Loaded(f"/{relation}/metadata/1.json", entry, {})

    def load_all(self, relations: Mapping[Relation, bool]) -> Mapping[Relation, Loaded | LakeDamaged]:
        return {r: result for r in relations if (result := self._tried(r)) is not None}

    def _tried(self, relation: Relation) -> Loaded | LakeDamaged | None:
        try:
            return self.load(relation)
        except LakeDamaged as error:
            return error


@pytest.fixture
def catalog() -> Iterator[Catalog]:
    yield Catalog()


def test_one_relation_is_one_question(catalog: Catalog) -> None:
    pointers = RestPointers(catalog)
    assert pointers[VIEW] == Pointer(VIEW, "/shop.v/metadata/1.json", True)
    assert pointers.get(Relation("shop", "none")) is None
    assert VIEW in pointers
    assert (catalog.lists, catalog.loads) == (0, [VIEW, Relation("shop", "none")])


def test_names_are_a_list_and_nothing_is_loaded(catalog: Catalog) -> None:
    pointers = RestPointers(catalog)
    assert set(pointers) == {*TABLES, VIEW, OTHER}
    assert len(pointers) == 8
    assert Relation("shop", "none") not in pointers
    assert [r for r in pointers if pointers[r].is_view] == [VIEW]
    assert (catalog.lists, catalog.loads) == (1, [])


def test_what_is_wanted_is_loaded_and_nothing_else(catalog: Catalog) -> None:
    pointers = RestPointers(catalog)
    list(pointers)
    wanted = [pointers[r] for r in TABLES[:4]]
    fetch(wanted)
    assert [p.location for p in wanted] == [f"/{r}/metadata/1.json" for r in TABLES[:4]]
    assert catalog.loads == TABLES[:4]


def test_whoever_asks_for_many_one_by_one_gets_the_whole_schema(catalog: Catalog) -> None:
    pointers = RestPointers(catalog)
    list(pointers)
    for relation in TABLES:
        assert pointers[relation].location
    assert sorted(catalog.loads) == sorted([*TABLES, VIEW])
    assert OTHER not in catalog.loads


def test_what_was_seen_stays_as_it_was_seen(catalog: Catalog) -> None:
    pointers = RestPointers(catalog)
    first = pointers[TABLES[0]]
    catalog.there = {}
    assert pointers[TABLES[0]] == first


def test_what_goes_meanwhile(catalog: Catalog) -> None:
    pointers = RestPointers(catalog)
    lazy = [pointers[r] for r in pointers]
    del catalog.there[TABLES[1]]
    fetch(lazy)
    assert TABLES[1] not in set(pointers)
    assert TABLES[1] not in pointers
    with pytest.raises(Conflict, match=r"shop\.b was dropped at this very moment"):
        _ = lazy[1].location


def test_damage_of_one_concerns_no_other(catalog: Catalog) -> None:
    catalog.damaged.add(TABLES[1])
    pointers = RestPointers(catalog)
    lazy = [pointers[r] for r in pointers]
    fetch(lazy)
    assert lazy[0].location == "/shop.a/metadata/1.json"
    assert pointers[TABLES[1]].relation == TABLES[1]
    with pytest.raises(LakeDamaged):
        _ = lazy[1].location
    alone = RestPointers(catalog)[TABLES[1]]
    with pytest.raises(LakeDamaged):
        _ = alone.location


def test_old_metadata_of_what_was_looked_at_does_not_count(catalog: Catalog) -> None:
    pointers = RestPointers(catalog)
    _ = pointers[TABLES[0]]
    living = LiveLocations(pointers)
    assert "/shop.a/metadata/1.json" in living
    assert "/shop.a/metadata/0.json" not in living
    assert "/shop.b/metadata/0.json" in living
