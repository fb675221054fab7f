"""Rollbacks carried out."""

from __future__ import annotations

import pytest

from sqb.environments.model import Status
from sqb.environments.naming import build_logical_relation
from sqb.errors.environments import NoSuchCheckpoint, NoSuchEnvironment, PromotionConflict, ViewTaken
from sqb.lake.port import ViewSwap
from sqb.names import Relation
from unit.environments.promotion.test_promote import SHOP, changed
from unit.environments.small_world import SmallWorld


@pytest.fixture
def world() -> SmallWorld:
    """Four checkpoints, and what was shown at each."""
    result = SmallWorld()
    for text in "1234":
        result.build("prod", changed(stg=text) if text != "3" else changed(stg="2") | {"new": ("1", ("stg",))})
    return result


def test_back_step_by_step_and_forward_by_number(world: SmallWorld) -> None:
    fourth = world.shown()
    assert world.roll_back().checkpoint.number == 3 and "new" in world.shown()
    assert world.roll_back().checkpoint.number == 2 and "new" not in world.shown()
    done = world.roll_back()
    assert done.checkpoint.number == 1 and done.views == 2 and done.status is Status.FINALIZED
    with pytest.raises(NoSuchCheckpoint, match="prod is at its first checkpoint"):
        world.roll_back()
    world.roll_back("prod", "4")
    assert world.shown() == fourth
    assert len(world.store.read_checkpoints("prod")) == 4, "going along checkpoints makes none"


def test_the_rows_that_readers_saw_come_back(world: SmallWorld) -> None:
    before = world.shown()
    world.build("prod", changed(stg="4"), rows=2)
    assert world.shown() != before
    done = world.roll_back()
    assert {s.what for s in done.steps} == {"data"} and world.shown() == before


def test_what_was_built_in_part_goes_first(world: SmallWorld) -> None:
    before = world.shown()
    world.build("prod", changed(stg="5"), only=("stg",))
    assert world.status() is Status.ACTIVE
    assert world.roll_back().checkpoint.number == 4
    assert world.shown() == before and world.status() is Status.FINALIZED


def test_a_checkpoint_of_a_part_is_active_again(world: SmallWorld) -> None:
    world.build("pr", changed(stg="6"))
    world.promote("pr", "prod", "stg", allow_partial=True)
    world.roll_back()
    assert world.status() is Status.FINALIZED
    done = world.roll_back("prod", "5")
    assert done.status is world.status() is Status.ACTIVE and [m.name for m in done.left] == ["fct"]


def test_to_where_it_is_already(world: SmallWorld) -> None:
    done = world.roll_back("prod", "4")
    assert done.steps == () and done.views == 0


def test_a_build_after_a_rollback_goes_on_from_there(world: SmallWorld) -> None:
    world.roll_back("prod", "1")
    first = world.shown()
    world.build("prod", changed(stg="9"))
    assert world.roll_back().checkpoint.number == 1 and world.shown() == first


def test_a_dry_run_and_names_that_are_wrong(world: SmallWorld) -> None:
    before = world.shown()
    assert world.roll_back(dry_run=True).checkpoint.number == 3
    assert world.shown() == before
    with pytest.raises(NoSuchEnvironment):
        world.roll_back("pr")
    with pytest.raises(NoSuchCheckpoint):
        world.roll_back("prod", "77")


def test_what_is_shown_again_does_not_revert_what_its_baseline_got_since() -> None:
    world = SmallWorld()
    world.build("prod", SHOP)
    world.build("pr", changed(stg="2"))
    world.build("prod", changed(stg="5"))
    # The newer code was merged, and the environment built with it: they agree on it.
    world.build("pr", changed(stg="5"))
    world.build("pr", changed(stg="6"))
    world.roll_back("pr", "1")
    with pytest.raises(PromotionConflict):
        world.promote("pr")
    world.roll_back("pr", "3")
    assert world.promote("pr").promotion.promoted == ("fct", "stg")


def test_views_that_are_gone_are_put_back() -> None:
    world = SmallWorld()
    nodes = {"a": ("1", ()), "b": ("1", ("a",))}
    world.build("prod", nodes)
    world.build("pr", nodes)
    for environment in ("prod", "pr"):
        world.lake.drop_as_stranger(build_logical_relation(Relation("shop", "b"), environment, None))
    assert world.roll_back("prod", "1", dry_run=True).misplaced == ("b",)
    done = world.roll_back("prod", "1")
    assert (done.views, done.misplaced, set(world.shown("prod"))) == (1, ("b",), {"a", "b"})
    assert world.roll_back("prod", "1").views == 0
    world.lake.drop_as_stranger(build_logical_relation(Relation("shop", "a"), "prod", None))
    assert world.promote("pr").views == 1 and set(world.shown("prod")) == {"a", "b"}


def test_everything_that_stands_in_the_way_of_views_is_told_at_once() -> None:
    world = SmallWorld()
    for name in ("a", "b"):
        world.lake.swap_views([ViewSwap(Relation("shop__prod", name), "SELECT 1")])
    with pytest.raises(ViewTaken) as caught:
        world.build("prod", {"a": ("1", ()), "b": ("1", ("a",))})
    assert caught.value.message.startswith("2 relations that the virtual environment prod has not made")
    assert list(caught.value.evidence) == ["shop__prod.a is a view", "shop__prod.b is a view"]
