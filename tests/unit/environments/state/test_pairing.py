"""A state and a lake that know each other, and those that do not."""

from __future__ import annotations

import pytest

from sqb.environments.state.pairing import Match, build_mark_relation, pair_lake, read_pairing, repair_pairing
from sqb.errors.base import SqbError
from sqb.errors.environments import ForeignState
from support.memory_lake import MemoryLake
from support.memory_store import MemoryStore
from unit.environments.small_world import SmallWorld

NODES = {"a": ("1", ()), "b": ("1", ("a",))}


@pytest.fixture
def world() -> SmallWorld:
    return SmallWorld()


def match(store: MemoryStore, lake: MemoryLake) -> Match:
    return read_pairing(store, lake).match


def forget_ids(world: SmallWorld) -> None:
    """Leave a state and a lake as an sqb left them that knew of no ids."""
    world.lake.drop_as_stranger(build_mark_relation(world.store.scope))
    world.store.set_lake_id("")


def test_the_first_move_makes_a_pair(world: SmallWorld) -> None:
    assert match(world.store, world.lake) is Match.UNPAIRED
    world.build("prod", NODES)
    assert match(world.store, world.lake) is Match.PAIRED
    assert world.store.read_lake_id() == read_pairing(world.store, world.lake).mark.lake  # type: ignore[union-attr]


def test_another_state_changes_nothing(world: SmallWorld) -> None:
    world.build("prod", NODES)
    world.build("pr", NODES)
    before, mine = dict(world.lake.list_pointers()), world.store
    world.store = MemoryStore()
    for command in (
        lambda: world.build("prod", NODES),
        lambda: world.promote("pr"),
        lambda: world.promote("pr", dry_run=True),
        lambda: world.roll_back("prod"),
        lambda: world.roll_back("prod", dry_run=True),
    ):
        with pytest.raises(ForeignState) as caught:
            command()
        assert f"found the state {world.store.read_state_id()[:8]} in memory" in caught.value.message
        assert f"expected the state {mine.read_state_id()[:8]} in memory" in caught.value.message
    assert world.lake.list_pointers() == before and world.store.read_environments() == {}


def test_a_state_is_not_taken_to_another_lake(world: SmallWorld) -> None:
    world.build("prod", NODES)
    world.lake = MemoryLake()
    with pytest.raises(ForeignState, match="is of another lake"):
        world.build("prod", NODES)
    assert not world.lake.list_pointers()


def test_an_older_pair_adopts_ids(world: SmallWorld) -> None:
    world.build("prod", NODES)
    forget_ids(world)
    assert match(world.store, world.lake) is Match.UNPAIRED
    world.build("prod", NODES, rows=2)
    assert match(world.store, world.lake) is Match.PAIRED


def test_a_new_state_on_an_older_lake_with_views_does_not(world: SmallWorld) -> None:
    world.build("prod", NODES)
    forget_ids(world)
    world.store = MemoryStore()
    pairing = read_pairing(world.store, world.lake)
    assert pairing.match is Match.FOREIGN and "which knows no environment of memory" in pairing.why
    assert "expected the one that made the views of prod" in pairing.why


def test_an_older_state_of_another_lake_does_not(world: SmallWorld) -> None:
    other = SmallWorld()
    for one in (world, other):
        one.build("prod", NODES)
        forget_ids(one)
    pairing = read_pairing(world.store, other.lake)
    assert pairing.match is Match.FOREIGN and "which has other environments" in pairing.why
    with pytest.raises(ForeignState):
        pair_lake(world.store, other.lake)


def test_scopes_of_one_state_share_a_lake(world: SmallWorld) -> None:
    world.build("prod", NODES)
    other = MemoryStore("other", {"memory": world.store})  # type: ignore[dict-item]
    pair_lake(other, world.lake)
    assert match(other, world.lake) is match(world.store, world.lake) is Match.PAIRED


def test_a_mark_that_was_dropped_is_made_again(world: SmallWorld) -> None:
    world.build("prod", NODES)
    before = world.store.read_lake_id()
    world.lake.drop_as_stranger(build_mark_relation(world.store.scope))
    world.build("prod", NODES, rows=2)
    assert match(world.store, world.lake) is Match.PAIRED and world.store.read_lake_id() == before


def test_a_pair_that_was_cut_off_in_between_is_finished(world: SmallWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(MemoryStore, "set_lake_id", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            world.build("prod", NODES)
    with pytest.raises(ForeignState):
        pair_lake(MemoryStore(), world.lake)
    world.build("prod", NODES)
    assert match(world.store, world.lake) is Match.PAIRED


def test_of_two_states_that_come_at_once_one_gets_the_lake(monkeypatch: pytest.MonkeyPatch) -> None:
    lake, first, second = MemoryLake(), MemoryStore(), MemoryStore()
    seen = read_pairing(second, lake)
    pair_lake(first, lake)
    with monkeypatch.context() as patched:
        patched.setattr("sqb.environments.state.pairing.read_pairing", lambda *_: seen)
        with pytest.raises(SqbError):
            pair_lake(second, lake)
    assert match(first, lake) is Match.PAIRED and match(second, lake) is Match.FOREIGN


def test_a_lake_is_given_to_another_state_only_on_request(world: SmallWorld) -> None:
    world.build("prod", NODES)
    lost, world.store = world.store, MemoryStore()
    repair_pairing(world.store, world.lake)
    world.build("prod", NODES)
    assert match(world.store, world.lake) is Match.PAIRED and match(lost, world.lake) is Match.FOREIGN  # type: ignore[arg-type]
