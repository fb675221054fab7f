"""Promotions and rollbacks with every store of environments."""

from __future__ import annotations

import pytest

from contract.stores import SCOPE, StoreMaker
from sqb.environments.diff import compare_environments
from sqb.environments.model import Status
from sqb.errors.environments import PromotionConflict
from unit.environments.small_world import SmallWorld

SHOP = {"stg": ("1", ()), "other": ("1", ()), "fct": ("1", ("stg", "other"))}


def test_a_story_of_two_environments(stores: StoreMaker) -> None:
    world = SmallWorld(store=stores(SCOPE))
    world.build("prod", SHOP)
    first = world.shown()
    world.build("pr", SHOP | {"stg": ("2", ())})
    world.build("hotfix", SHOP | {"other": ("2", ())} | {"new": ("1", ("stg",))})
    differences = compare_environments(world.workspace, world.store, world.lake, "pr", "prod")  # type: ignore[arg-type]
    assert [(d.name, d.change, str(d.reason)) for d in differences.differences] == [
        ("stg", "changed", "Query changed"),
        ("fct", "changed", "Upstream changed"),
    ]
    # Somebody else sees it through a connection of his own.
    elsewhere = SmallWorld(world.lake, store=stores(SCOPE))
    done = elsewhere.promote("hotfix")
    assert (
        done.promotion.promoted == ("fct", "new", "other")
        and done.checkpoint is not None
        and done.checkpoint.number == 2
    )
    with pytest.raises(PromotionConflict) as error:
        world.promote("pr")
    assert "with checkpoint 2 (promoted from hotfix: 1 added, 2 changed, run r1" in error.value.evidence[0]
    elsewhere.roll_back()
    assert world.shown() == first
    world.promote("pr")
    assert world.shown() == world.shown("pr")
    world.roll_back("prod", "2")
    assert world.shown() == world.shown("hotfix")
    world.roll_back("prod", "3")
    assert world.shown() == world.shown("pr") and world.status() is Status.FINALIZED
    assert [c.number for c in world.store.read_checkpoints("prod")] == [3, 2, 1]
