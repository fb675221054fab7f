"""Promotions carried out: what readers see, what the store knows, and what is refused in which words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from sqb.environments.model import Status
from sqb.errors.call import BadSelector, CallError
from sqb.errors.environments import (
    Detached,
    EnvironmentLocked,
    InUse,
    NoSuchEnvironment,
    NotFinalized,
    PartialPromotion,
    PromotionConflict,
    StaleUpstreams,
    VersionGone,
)
from sqb.errors.lake import LakeError
from sqb.lake.port import ViewSwap
from sqb.lake.state.rows import Fingerprint, FreshnessRow
from support.memory_lake import MemoryLake
from unit.environments.small_world import SmallWorld

Text = tuple[str, tuple[str, ...]]
NODES: dict[str, Text] = {"a": ("1", ()), "b": ("1", ("a",))}
SHOP: dict[str, Text] = {"stg": ("1", ()), "other": ("1", ()), "fct": ("1", ("stg", "other"))}


def changed(**texts: str) -> dict[str, Text]:
    return SHOP | {name: (text, SHOP[name][1] if name in SHOP else ()) for name, text in texts.items()}


@pytest.fixture
def world() -> SmallWorld:
    result = SmallWorld()
    result.build("prod", SHOP)
    return result


def test_readers_see_what_was_promoted_and_there_is_a_checkpoint(world: SmallWorld) -> None:
    world.build("pr", changed(stg="2"))
    done = world.promote("pr")
    assert world.shown("prod") == world.shown("pr")
    assert [(s.name, s.what) for s in done.promotion.steps] == [("fct", "changed"), ("stg", "changed")]
    assert done.views == 2
    newest, first = world.store.read_checkpoints("prod")
    assert done.checkpoint == newest and newest.parent == first.id and newest.reason == "promote"
    assert (newest.detail, newest.promoted_from) == ("promoted from pr: 2 changed", "pr")
    prod = world.store.read_environments()["prod"]
    assert (prod.status, prod.checkpoint) == (Status.FINALIZED, newest.id)


def test_again_does_nothing(world: SmallWorld) -> None:
    world.build("pr", changed(stg="2"))
    world.promote("pr")
    before = world.store.read_checkpoints()
    assert world.promote("pr").promotion.steps == () and world.store.read_checkpoints() == before


def test_both_start_from_what_they_agree_on_now(world: SmallWorld) -> None:
    world.build("pr", changed(stg="2"))
    world.promote("pr")
    for name in ("pr", "prod"):
        assert all(r.base == r.binding.version_hash for r in world.store.read_refs(name).values())
    # So that the next change of somebody else is no conflict with the first environment, which did nothing since.
    world.build("hotfix", changed(stg="3"))
    world.promote("hotfix")
    done = world.promote("pr")
    assert done.promotion.steps == () and done.promotion.unchanged == ("fct", "stg")


def test_a_model_that_was_removed_leaves(world: SmallWorld) -> None:
    world.build("pr", {n: d for n, d in SHOP.items() if n != "fct"})
    assert [(s.name, s.what) for s in world.promote("pr").promotion.steps] == [("fct", "removed")]
    assert set(world.shown()) == {"stg", "other"}


def test_a_model_that_was_removed_before_the_source_was_made_leaves() -> None:
    world = SmallWorld()
    world.build("prod", {"a": ("1", ()), "e": ("1", ())})
    world.build("pr", {"a": ("2", ())})
    assert world.promote("pr").promotion.removed == ("e",)
    assert sorted(world.shown("prod")) == ["a"]


def test_a_model_that_is_in_no_checkpoint_stays_when_the_source_has_removed_it() -> None:
    world = SmallWorld()
    world.build("prod", {"a": ("1", ())})
    # A part was built: the environment shows more than its checkpoint.
    world.build("prod", {"a": ("1", ()), "b": ("1", ()), "e": ("1", ())}, only=("e",))
    assert world.status("prod") is Status.ACTIVE
    world.build("pr", {"a": ("2", ()), "b": ("1", ())})
    promotion = world.promote("pr").promotion
    assert (promotion.promoted, promotion.removed, promotion.unchanged) == (("a", "b"), (), ("e",))
    assert sorted(world.shown("prod")) == ["a", "b", "e"]
    # The next build of the target sees that the project has it no more.
    world.build("prod", {"a": ("2", ()), "b": ("1", ())})
    assert sorted(world.shown("prod")) == ["a", "b"]


def test_a_model_that_came_to_the_target_meanwhile_stays(world: SmallWorld) -> None:
    world.build("pr", changed(other="1", mine="1"))
    world.build("prod", SHOP | {"theirs": ("1", ("stg",))})
    assert world.promote("pr").promotion.unchanged == ("theirs",)
    assert set(world.shown()) == {*SHOP, "mine", "theirs"}


def test_conflicts_say_who_did_what_and_the_way_out(world: SmallWorld) -> None:
    world.build("pr", changed(stg="2"))
    world.build("hotfix", changed(other="2"))
    world.promote("hotfix")
    shown = world.shown()
    with pytest.raises(PromotionConflict) as error:
        world.promote("pr")
    assert error.value.message == "prod has moved on since pr last agreed with it: fct"
    base, mine, theirs = (
        _version(world, "prod", "fct", 1),
        _version(world, "pr", "fct"),
        _version(world, "prod", "fct"),
    )
    when = f"{world.store.read_checkpoints('prod')[0].created_at:%Y-%m-%d %H:%M}"
    assert error.value.evidence == (
        f"fct: {base} when they agreed; pr changed it to {mine}; prod changed it to {theirs} with checkpoint 2 "
        f"(promoted from hotfix: 2 changed, run r1, {when}) (through other, stg)",
    )
    assert error.value.hint == (
        "merge the newer code into that of pr, build it again with `sqb build --virtual-env pr`, and promote then"
    )
    assert world.shown() == shown
    # The way out.
    world.build("pr", changed(stg="2", other="2"))
    world.promote("pr")
    assert world.shown() == world.shown("pr")


def test_both_changed_the_model_itself(world: SmallWorld) -> None:
    world.build("pr", changed(stg="2"))
    world.build("prod", changed(stg="3"))
    with pytest.raises(PromotionConflict) as error:
        world.promote("pr")
    assert error.value.message == "prod has moved on since pr last agreed with it: stg"
    assert error.value.hint is not None and error.value.hint.endswith("with --merged as both changed stg")
    world.build("pr", changed(stg="2 and 3"))
    with pytest.raises(PromotionConflict):
        world.promote("pr")
    world.promote("pr", merged=True)
    assert world.shown() == world.shown("pr")


def test_a_change_of_its_own_below_a_change_that_was_merged(world: SmallWorld) -> None:
    world.build("pr", changed(fct="2"))
    world.build("prod", changed(stg="3"))
    with pytest.raises(PromotionConflict) as error:
        world.promote("pr")
    assert error.value.evidence[0].startswith("fct: pr made it from stg at version")
    world.build("pr", changed(fct="2", stg="3"))
    assert world.promote("pr").promotion.promoted == ("fct",)


def _version(world: SmallWorld, environment: str, name: str, checkpoint: int = 0) -> str:
    if checkpoint:
        ids = world.store.read_checkpoints(environment)[checkpoint].refs
        return world.store.read_bindings([ids[name]])[ids[name]].version_hash[:8]
    return world.store.read_refs(environment)[name].binding.version_hash[:8]


def test_a_new_model_on_what_the_target_has_moved_past(world: SmallWorld) -> None:
    world.build("pr", SHOP | {"new": ("1", ("stg",))})
    world.build("prod", changed(stg="9"))
    with pytest.raises(PromotionConflict) as error:
        world.promote("pr")
    assert error.value.message == "prod has moved on since pr last agreed with it: new"
    [line] = error.value.evidence
    assert line.startswith(
        f"new: pr made it from stg at version {_version(world, 'pr', 'stg')}, and prod changed it to"
    )


def test_a_part(world: SmallWorld) -> None:
    world.build("pr", changed(stg="2"))
    with pytest.raises(StaleUpstreams) as error:
        world.promote("pr", "prod", "fct")
    assert error.value.message == "selected models have stale required upstreams: stg"
    with pytest.raises(PartialPromotion) as partial:
        world.promote("pr", "prod", "stg")
    assert partial.value.message == "prod would be left with models that do not fit together: fct"
    assert partial.value.hint == "select fct too; or allow it with --allow-partial-promotion"
    world.promote("pr", "prod", "stg", allow_partial=True)
    assert world.status() is Status.ACTIVE
    rest = world.promote("pr", "prod", "fct")
    assert rest.promotion.promoted == ("fct",) and world.status() is Status.FINALIZED
    assert world.shown() == world.shown("pr")


def test_upstreams_that_are_included(world: SmallWorld) -> None:
    world.build("pr", changed(stg="2", other="2"))
    done = world.promote("pr", "prod", "fct", include_stale_upstreams=True)
    assert done.promotion.included == ("other", "stg") and world.shown() == world.shown("pr")


def test_selectors_by_glob_and_by_what_is_below(world: SmallWorld) -> None:
    world.build("pr", changed(stg="2"))
    assert world.promote("pr", "prod", "st*+", dry_run=True).promotion.promoted == ("fct", "stg")
    with pytest.raises(BadSelector, match='nothing is called "nothing"'):
        world.promote("pr", "prod", "nothing")


def test_one_that_is_not_finalized(world: SmallWorld) -> None:
    world.build("pr", changed(stg="2"), only=("stg",))
    with pytest.raises(NotFinalized) as error:
        world.promote("pr")
    assert error.value.message == "pr is not finalized: fct is stale"
    done = world.promote("pr", allow_partial=True)
    assert done.promotion.promoted == ("stg",) and world.status() is Status.ACTIVE


def test_a_dry_run_changes_nothing(world: SmallWorld) -> None:
    world.build("pr", changed(stg="2"))
    shown, checkpoints = world.shown(), world.store.read_checkpoints()
    done = world.promote("pr", dry_run=True)
    assert done.promotion.promoted == ("fct", "stg") and done.checkpoint is None
    assert world.shown() == shown and world.store.read_checkpoints() == checkpoints


def test_the_first_promotion_makes_the_default_environment_and_no_other() -> None:
    world = SmallWorld(unsuffixed="prod")
    world.build("pr", SHOP)
    with pytest.raises(NoSuchEnvironment, match="there is no virtual environment prood"):
        world.promote("pr", "prood")
    world.promote("pr")
    assert world.shown("prod") == world.shown("pr") and world.status() is Status.FINALIZED


def test_names_that_are_wrong(world: SmallWorld) -> None:
    with pytest.raises(CallError, match="cannot be promoted to itself"):
        world.promote("prod")
    with pytest.raises(NoSuchEnvironment, match="there is no virtual environment pr"):
        world.promote("pr")


@pytest.mark.parametrize("which", ["pr", "prod"])
def test_detached_ones_are_left_alone(world: SmallWorld, which: str) -> None:
    world.build("pr", changed(stg="2"))
    with world.store.lock(which, "a test") as token:
        world.store.set_environment(replace(world.store.read_environments()[which], status=Status.DETACHED), token)
    with pytest.raises(Detached):
        world.promote("pr")
    with pytest.raises(Detached):
        world.roll_back(which)


@pytest.mark.parametrize("which", ["pr", "prod"])
def test_somebody_else_works_on_one_of_them(world: SmallWorld, which: str) -> None:
    world.build("pr", changed(stg="2"))
    with world.store.lock(which, "somebody"):
        with pytest.raises(EnvironmentLocked):
            world.promote("pr")
        world.promote("pr", dry_run=True)
        world.promote("pr", take_over=True)
    assert world.shown() == world.shown("pr")


def test_tables_that_somebody_dropped(world: SmallWorld) -> None:
    world.build("pr", changed(stg="2"))
    table = world.store.read_refs("pr")["stg"].binding.relation
    assert table is not None
    world.lake.swap_views([ViewSwap(table, None, before=world.lake.list_pointers()[table].location)])
    with pytest.raises(VersionGone) as error:
        world.promote("pr")
    assert error.value.evidence == (f"stg: {table} is not in the catalog",)


def test_a_promotion_between_two_beside_each_other(world: SmallWorld) -> None:
    world.build("staging", SHOP)
    world.build("pr", changed(stg="2"))
    world.promote("pr", "staging")
    assert world.shown("staging") == world.shown("pr")
    # The environment goes on, and neither staging nor prod is in conflict with what it comes from.
    world.build("pr", changed(stg="3"))
    world.promote("pr", "staging")
    world.promote("pr", "prod")
    assert world.shown("staging") == world.shown("pr") == world.shown("prod")


def test_the_target_was_built_from_the_same_code_and_moved_on(world: SmallWorld) -> None:
    world.build("pr", changed(stg="2") | {"mine": ("1", ())})
    world.build("prod", changed(stg="2") | {"mine": ("1", ())})
    world.build("prod", changed(stg="3") | {"mine": ("2", ())})
    done = world.promote("pr")
    assert done.promotion.steps == () and done.promotion.unchanged == ("fct", "mine", "stg")


def test_one_that_was_killed_before_the_two_had_agreed_and_rolled_back(world: SmallWorld) -> None:
    world.build("pr", changed(stg="2") | {"mine": ("1", ())})
    with pytest.raises(Killed):
        world.promote("pr", **_kill_at("environment begun", "prod"))
    world.roll_back()
    assert world.promote("pr").promotion.promoted == ("fct", "mine", "stg")


def test_a_version_of_long_ago_is_a_change(world: SmallWorld) -> None:
    world.build("prod", changed(stg="2"))
    world.build("pr", changed(stg="1"))
    assert world.promote("pr", dry_run=True).promotion.promoted == ("fct", "stg")
    world.build("prod", changed(stg="3"))
    with pytest.raises(PromotionConflict):
        world.promote("pr")


def test_an_environment_follows_its_baseline(world: SmallWorld) -> None:
    world.build("pr", SHOP | {"mine": ("1", ())})
    world.build("prod", changed(stg="2"))
    done = world.promote("prod", "pr")
    assert done.promotion.promoted == ("fct", "stg") and done.promotion.unchanged == ("mine",)
    assert world.promote("pr").promotion.promoted == ("mine",)


def test_after_a_rollback_it_is_promoted_again_as_it_is_or_repaired(world: SmallWorld) -> None:
    before = world.shown()
    world.build("pr", changed(stg="2") | {"mine": ("1", ())})
    world.promote("pr")
    world.roll_back()
    assert world.promote("pr").promotion.promoted == ("fct", "mine", "stg")
    world.roll_back()
    assert world.shown() == before
    world.build("pr", changed(stg="2, repaired") | {"mine": ("1", ())})
    assert world.promote("pr").promotion.promoted == ("fct", "mine", "stg")
    assert world.shown() == world.shown("pr")


def test_what_was_rolled_back_is_not_promoted_again_by_those_who_had_nothing_to_do_with_it(world: SmallWorld) -> None:
    world.build("hotfix", changed(stg="2"))
    world.promote("hotfix")
    world.build("pr", changed(stg="2") | {"mine": ("1", ())})
    world.roll_back()
    done = world.promote("pr")
    assert done.promotion.promoted == ("mine",) and done.promotion.unchanged == ("fct", "stg")


def test_observations_of_sources_that_are_new_come_along_and_those_of_python_nodes_do_not(world: SmallWorld) -> None:
    def row(source: str, value: str) -> FreshnessRow:
        return FreshnessRow(source, "shop", "r1", "snapshot", "id", value, datetime(2026, 1, 1, tzinfo=UTC))

    world.build("pr", changed(stg="2"))
    world.store.add_freshness("prod", [row("raw.a", "1")])
    world.store.add_freshness("pr", [row("raw.a", "2"), row("raw.b", "2")])
    mark = Fingerprint("task", "notify", "shop", "", "r1", "", "", "", "", "", datetime(2026, 1, 1, tzinfo=UTC))
    world.store.add_fingerprints("pr", [mark])
    world.promote("pr")
    assert {r.source_name: r.data_version for r in world.store.read_freshness("prod")} == {"raw.a": "1", "raw.b": "2"}
    assert world.store.read_fingerprints("prod") == []


class Killed(Exception):
    """The process ends here."""


def _kill_at(step: str, environment: str) -> Mapping[str, object]:
    def announce(at: str, name: str) -> None:
        if (at, name) == (step, environment):
            raise Killed

    return {"announce": announce}


@pytest.mark.parametrize("step", ["environment begun", "views moved", "environment moved"])
def test_a_promotion_that_is_killed_is_finished_by_the_next_command(world: SmallWorld, step: str) -> None:
    world.build("pr", changed(stg="2"))
    with pytest.raises(Killed):
        world.promote("pr", **_kill_at(step, "prod"))
    again = world.promote("pr")
    assert again.promotion.steps == () and world.shown() == world.shown("pr")
    assert [c.reason for c in world.store.read_checkpoints("prod")] == ["promote", "build"]
    assert world.roll_back().checkpoint.number == 1


def test_a_catalog_without_transactions_that_fails_in_the_middle() -> None:
    world = SmallWorld(MemoryLake(transactions=False))
    world.build("prod", SHOP)
    before = world.shown()
    world.build("pr", changed(stg="2", other="2"))
    world.lake.swaps_left = 1
    with pytest.raises(LakeError):
        world.promote("pr")
    world.lake.swaps_left = None
    # The next command finishes what was begun before it does its own work.
    assert world.roll_back().steps and world.shown() == before
    world.roll_back("prod", "2")
    assert world.shown() == world.shown("pr")


# --- after the baseline was removed -----------------------------------------------------------------------------------


def test_what_is_promoted_to_a_baseline_that_was_removed_is_complete() -> None:
    world = SmallWorld()
    world.build("prod", NODES)
    world.build("pr", {**NODES, "c": ("2", ("a",))})
    with pytest.raises(InUse):
        world.remove("prod")
    world.remove("prod", force=True)
    assert {r.base for r in world.store.read_refs("pr").values()} == {""}
    done = world.promote("pr")
    assert done.promotion.status is Status.FINALIZED and set(world.shown("prod")) == {"a", "b", "c"}


def test_a_baseline_that_was_made_again_gets_what_it_lacks_or_refuses() -> None:
    world = SmallWorld()
    world.build("prod", NODES)
    world.build("pr", NODES)
    world.remove("prod", force=True)
    world.build("prod", {"a": NODES["a"]})
    assert world.promote("pr").promotion.status is Status.FINALIZED
    assert set(world.shown("prod")) == {"a", "b"}


def test_a_part_that_is_promoted_to_a_new_environment_is_not_all_of_it() -> None:
    world = SmallWorld()
    world.build("pr", NODES)
    assert world.promote("pr", "prod", "a").promotion.status is Status.ACTIVE
    assert world.promote("pr", "prod").promotion.status is Status.FINALIZED


def test_a_removal_that_was_cut_off_is_done_by_the_next() -> None:
    world = SmallWorld()
    world.build("prod", NODES)

    def cut(step: str, name: str) -> None:
        if step == "views moved":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.remove("prod", announce=cut)
    assert set(world.store.read_environments()) == {"prod"}
    world.remove("prod")
    assert not world.store.read_environments()
