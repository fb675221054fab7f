"""What is taken over from another target: every condition, and what is recorded of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from sqb.compile.model import How, Node, OtherTarget, Project
from sqb.names import Relation
from sqb.plan.decide import make_plan
from sqb.plan.model import Options, Plan, PlannedNode
from sqb.plan.observed import Observed, RelationState, compute_checks_token
from sqb.plan.recorded.commit_identity import CommitIdentity
from sqb.plan.recorded.versions import RecordedVersion, encode_sources
from sqb.plan.reuse import has_same_checks
from unit.plan.worlds import built, changed, node, observed, project, source, version, without

RAW = Relation("raw", "x")
STG = node("s.stg", "raw.x")
FCT = node("s.fct", "s.stg")
LOG = node("s.log", "s.stg", kind="append")


def here(*nodes: Node, how: How = "clone") -> Project:
    """The nodes as a dev project that looks at prod: `s.stg` is dev.stg here and prod.stg there."""
    there = {n.name: Relation("prod", n.relation.name) for n in nodes}
    world = project(*(replace(n, relation=Relation("dev", n.relation.name)) for n in nodes), externals=("raw.x",))
    return replace(world, other_target=OtherTarget("prod", how, there))


def prod(world: Project) -> Project:
    """The same project in the other target."""
    assert world.other_target is not None
    there = world.other_target.relations
    return replace(world, nodes={n.name: replace(n, relation=there[n.name]) for n in world}, other_target=None)


def lake(world: Project, raw: int = 1) -> dict[Relation, RelationState]:
    """A lake in which prod is built, and dev is not."""
    return built(prod(world), {RAW: source(raw)})


def planned(
    world: Project, relations: Mapping[Relation, RelationState], options: Options = Options()
) -> dict[str, PlannedNode]:
    return {n.name: n for n in make_plan(world, observed(relations), options).nodes}


CHAIN = here(STG, FCT)
BUILT = lake(CHAIN)


def why_not(world: Project, relations: Mapping[Relation, RelationState], name: str) -> str:
    entry = planned(world, relations)[name]
    assert entry.reuse is None and entry.run_type == "backfill"
    return entry.detail


def test_what_prod_has_is_taken_over() -> None:
    plan = planned(CHAIN, BUILT)
    assert {n: (p.action, p.run_type, str(p.reason), p.detail) for n, p in plan.items()} == {
        "s.stg": ("run", "reuse", "First run", "from prod.stg"),
        "s.fct": ("run", "reuse", "First run", "from prod.fct"),
    }
    assert not any(p.pending for p in plan.values())


def test_what_is_recorded_names_the_relations_of_this_target() -> None:
    plan = planned(CHAIN, BUILT)
    assert plan["s.stg"].reuse is not None and plan["s.fct"].reuse is not None
    assert plan["s.stg"].reuse.sources == {"raw.x": RecordedVersion(1, None, "id long")}
    # The clone of prod.stg has its snapshot, and so the version that prod.fct was made from.
    assert plan["s.fct"].reuse.sources == {"dev.stg": RecordedVersion(100, "rows of 100", "id long")}
    assert (plan["s.fct"].reuse.snapshot_id, plan["s.fct"].reuse.target) == (101, "prod")


def taken(world: Project, relations: Mapping[Relation, RelationState], plan: Plan) -> dict[Relation, RelationState]:
    """What stands after the plan's clones were made."""
    after = dict(relations)
    for one in plan.nodes:
        if one.reuse is not None:
            there = relations[one.reuse.relation]
            after[one.relation] = replace(
                there, identity=replace(there.identity, sources=encode_sources(one.reuse.sources))
            )
    return after


def test_the_next_plan_has_nothing_to_do_and_follows_what_changes_later() -> None:
    world = here(STG, FCT, LOG)
    relations = lake(world)
    after = taken(world, relations, make_plan(world, observed(relations)))
    assert make_plan(world, observed(after)).nothing_to_do
    moved = planned(world, {**after, RAW: source(2)})
    assert (moved["s.stg"].run_type, str(moved["s.stg"].reason)) == ("full", "Source changed")
    # What prod does later is not this target's concern.
    later = changed(after, "prod.stg", version=version(200, "other rows"))
    assert make_plan(world, observed(later)).nothing_to_do


def test_a_plan_with_reuse_goes_through_json() -> None:
    plan = make_plan(CHAIN, observed(BUILT))
    assert Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: without(r, "prod.stg"), "prod.stg is not there"),
        (lambda r: changed(r, "prod.stg", drifted=True), "prod.stg is not what sqb left there"),
        (lambda r: changed(r, "prod.stg", identity=CommitIdentity()), "prod.stg is not what sqb left there"),
        (lambda r: changed(r, "prod.stg", is_view=True), "prod.stg is not what sqb left there"),
        (lambda r: changed(r, "prod.stg", version=version(100)), "prod.stg does not say what its rows are"),
        (lambda r: changed(r, "prod.stg", identity=replace(r[Relation("prod", "stg")].identity, local_hash="old")),
         "prod.stg has another definition"),
        (lambda r: changed(r, "prod.stg", identity=replace(r[Relation("prod", "stg")].identity, sources="{}")),
         "prod.stg was made without reading raw.x"),
        (lambda r: changed(r, "prod.stg", identity=replace(
            r[Relation("prod", "stg")].identity,
            sources=json.dumps({"raw.x": [1, None, "id long"], "raw.gone": [1, None, ""]}))),
         "prod.stg was made from raw.gone too"),
    ],
)  # fmt: skip
def test_what_is_not_the_same_is_built(change: Any, words: str) -> None:
    assert why_not(CHAIN, change(BUILT), "s.stg") == f"not reused: {words}"


def test_what_is_built_anew_here_is_not_what_prod_was_made_from() -> None:
    plan = planned(CHAIN, without(BUILT, "prod.stg"))
    assert plan["s.fct"].detail == ("not reused: prod.fct was made from s.stg as it is in prod; it is rebuilt here")


def test_a_relation_that_prod_has_not_brought_up_to_date_is_built() -> None:
    relations = changed(BUILT, "prod.stg", version=version(200, "newer rows"))
    assert planned(CHAIN, relations)["s.stg"].run_type == "reuse"
    assert why_not(CHAIN, relations, "s.fct") == "not reused: prod.fct was made from another version of s.stg"


def test_a_commit_that_changed_no_rows_is_the_same_version() -> None:
    relations = changed(BUILT, "prod.stg", version=version(200, "rows of 100"))
    entry = planned(CHAIN, relations)["s.fct"]
    assert entry.reuse is not None and entry.reuse.sources == {
        "dev.stg": RecordedVersion(200, "rows of 100", "id long")
    }


def test_other_columns_are_another_version() -> None:
    relations = changed(BUILT, "prod.stg", version=version(200, "rows of 100", "id string"))
    assert "another version of s.stg" in why_not(CHAIN, relations, "s.fct")


def test_a_source_that_moved_on_comes_on_top_and_so_does_what_it_changes() -> None:
    plan = planned(CHAIN, {**BUILT, RAW: source(2)})
    stg, fct = plan["s.stg"], plan["s.fct"]
    assert (stg.run_type, stg.detail) == ("reuse", "from prod.stg, then what changed in raw.x")
    assert (fct.run_type, fct.detail) == ("reuse", "from prod.fct, then what changed in s.stg")
    assert stg.reuse is not None and fct.reuse is not None
    assert stg.reuse.sources == {"raw.x": RecordedVersion(1, None, "id long")}, "the version that prod has read"
    assert fct.reuse.sources == {"dev.stg": RecordedVersion(100, "rows of 100", "id long")}


def test_a_source_with_other_columns_has_moved_too() -> None:
    entry = planned(CHAIN, {**BUILT, RAW: source(1, "id string")})["s.stg"]
    assert entry.reuse is not None and entry.reuse.moved == ("raw.x",)


def test_an_upstream_that_stands_here_must_hold_the_same_rows() -> None:
    stg = BUILT[Relation("prod", "stg")]
    same = {**BUILT, Relation("dev", "stg"): replace(stg, version=version(7, "rows of 100"))}
    entry = planned(CHAIN, same)["s.fct"]
    assert entry.reuse is not None and entry.reuse.sources == {"dev.stg": RecordedVersion(7, "rows of 100", "id long")}
    other = {**BUILT, Relation("dev", "stg"): replace(stg, version=version(7, "rows of dev"))}
    assert "another version of s.stg" in why_not(CHAIN, other, "s.fct")


def test_an_upstream_that_runs_here_for_its_inputs_may_change_and_comes_on_top() -> None:
    stg = replace(BUILT[Relation("prod", "stg")], version=version(7, "rows of 100"))
    plan = planned(CHAIN, {**BUILT, RAW: source(2), Relation("dev", "stg"): stg})
    assert (plan["s.stg"].run_type, str(plan["s.stg"].reason)) == ("full", "Source changed")
    assert plan["s.fct"].reuse is not None and plan["s.fct"].reuse.moved == ("s.stg",)


def test_an_edit_here_builds_the_model_and_what_is_below_it() -> None:
    edited = here(replace(STG, local_hash="new", query_hash="new"), FCT)
    assert why_not(edited, BUILT, "s.stg") == "not reused: prod.stg has another definition"
    assert why_not(edited, BUILT, "s.fct").endswith("it is rebuilt here")


def test_an_edit_that_prod_has_already_is_taken_over() -> None:
    edited = here(replace(STG, local_hash="new", query_hash="new"), FCT)
    relations = {**lake(edited), Relation("dev", "stg"): BUILT[Relation("prod", "stg")]}
    entry = planned(edited, relations)["s.stg"]
    assert (entry.run_type, str(entry.reason), entry.detail) == ("reuse", "Query changed", "from prod.stg")


@pytest.mark.parametrize("kind", ["append", "scd2", "incremental"])
def test_histories_are_taken_over_when_there_is_none_here(kind: str) -> None:
    history = node("s.h", "s.stg", kind=kind, cursor="at", cursor_type="timestamp")
    world = here(STG, history)
    relations = lake(world)
    assert planned(world, relations)["s.h"].run_type == "reuse"
    assert planned(world, relations)["s.h"].detail == "from prod.h"
    if kind == "incremental":
        assert planned(world, relations, Options(start_cursor="2024-01-01"))["s.h"].reuse is None
    edited = here(STG, replace(history, local_hash="new"))
    own = {**lake(edited), Relation("dev", "h"): relations[Relation("prod", "h")]}
    assert planned(edited, own)["s.h"].reuse is None
    assert planned(edited, own)["s.h"].detail.endswith("not reused: the rows that it has here are kept")


def test_a_merge_that_keeps_rows_is_a_history() -> None:
    remaining = node("s.m", kind="merge", on_source_delete="keep")
    world = here(replace(remaining, local_hash="new"))
    relations = {**lake(world), Relation("dev", "m"): lake(here(remaining))[Relation("prod", "m")]}
    assert planned(world, relations)["s.m"].reuse is None


def test_a_table_whose_changes_a_log_follows_is_not_swapped() -> None:
    world = here(replace(STG, local_hash="new"), LOG)
    relations = lake(world)
    dev = taken(here(STG, LOG), lake(here(STG, LOG)), make_plan(here(STG, LOG), observed(lake(here(STG, LOG)))))
    own = {r: s for r, s in dev.items() if r.schema == "dev"}
    assert "s.log is a log of its changes here" in planned(world, {**relations, **own})["s.stg"].detail
    copied = here(replace(STG, local_hash="new"), LOG, how="copy")
    assert planned(copied, {**relations, **own})["s.stg"].run_type == "reuse", "a copy keeps the table's history"


@pytest.mark.parametrize("options", [Options(force=True), Options(full_refresh=True)])
def test_who_asks_for_new_rows_gets_them(options: Options) -> None:
    assert {p.run_type for p in planned(CHAIN, BUILT, options).values()} == {"backfill"}


def test_views_are_made_and_seen_through() -> None:
    view = node("s.v", "s.stg", kind="view")
    world = here(STG, view, node("s.top", "s.v"))
    relations = lake(world)
    plan = planned(world, relations)
    assert (plan["s.v"].run_type, plan["s.v"].detail) == ("backfill", "")
    assert plan["s.top"].reuse is not None and set(plan["s.top"].reuse.sources) == {"dev.stg", "view s.v"}
    edited = here(STG, replace(view, local_hash="new"), node("s.top", "s.v"))
    assert "another definition of s.v" in why_not(edited, relations, "s.top")


def test_a_source_that_only_counts_as_unchanged_is_recorded_as_it_was_read() -> None:
    relations = {**BUILT, RAW: RelationState(version=replace(version(2), same_rows=(1,)))}
    entry = planned(CHAIN, relations)["s.stg"]
    assert entry.reuse is not None and entry.reuse.moved == ()
    assert entry.reuse.sources == {"raw.x": RecordedVersion(1, None, "id long")}


def test_views_that_nobody_here_made_cannot_be_trusted() -> None:
    seen = Observed(BUILT, opaque=frozenset({"raw.x"}))
    by_name = {n.name: n for n in make_plan(CHAIN, seen).nodes}
    assert "its rows cannot be versioned" in by_name["s.stg"].detail


def test_seeds_are_shared_but_not_copied() -> None:
    seed = node("seeds.a", kind="seed")
    assert planned(here(seed), lake(here(seed)))["seeds.a"].run_type == "reuse"
    top = node("s.top", "seeds.a")
    copied = planned(here(seed, top, how="copy"), lake(here(seed, top)))
    assert (copied["seeds.a"].run_type, copied["s.top"].run_type) == ("backfill", "reuse")
    assert copied["s.top"].reuse is not None and copied["s.top"].reuse.moved == ()
    edited = here(replace(seed, local_hash="new"), top, how="copy")
    assert why_not(edited, lake(here(seed, top)), "s.top").endswith("it is rebuilt here")


def test_a_relation_that_is_one_in_both_targets_is_not_taken_from_itself() -> None:
    world = here(STG, FCT)
    assert world.other_target is not None
    shared = {**world.other_target.relations, "s.stg": Relation("dev", "stg")}
    world = replace(world, other_target=replace(world.other_target, relations=shared))
    relations = built(prod(world), {RAW: source(1)})
    assert planned(world, relations)["s.stg"].action == "skip"
    assert planned(world, relations)["s.fct"].run_type == "reuse"
    assert planned(world, without(relations, "dev.stg"))["s.stg"].detail == ""


def test_definitions_that_older_code_wrote_are_the_same() -> None:
    old = changed(BUILT, "prod.stg", identity=replace(BUILT[Relation("prod", "stg")].identity, local_hash="as then"))
    seen = Observed(old, renewed_hashes={"as then": STG.local_hash})
    assert {n.name: n.run_type for n in make_plan(CHAIN, seen).nodes}["s.stg"] == "reuse"


# --- checks -----------------------------------------------------------------------------------------------------------


def with_checks(*watches: str) -> tuple[Project, dict[Relation, RelationState]]:
    world = here(node("s.lookup", "raw.x"), replace(STG, checks_hash="not null", watches=watches))
    relations = lake(world)
    there = prod(world)
    token = compute_checks_token(there.nodes["s.stg"], there, relations)
    return world, changed(relations, "prod.stg", checks=token)


@pytest.mark.parametrize("watches", [(), ("s.lookup",)])
def test_checks_that_passed_there_hold_here(watches: tuple[str, ...]) -> None:
    world, relations = with_checks(*watches)
    entry = planned(world, relations)["s.stg"]
    assert entry.reuse is not None and entry.reuse.checked
    after = taken(world, relations, make_plan(world, observed(relations)))
    assert has_same_checks(world.nodes["s.stg"], world, after)


def test_checks_that_did_not_pass_there_are_to_run() -> None:
    world, relations = with_checks()
    other = changed(relations, "prod.stg", checks="other checks.1")
    entry = planned(world, other)["s.stg"]
    assert entry.run_type == "reuse" and entry.reuse is not None and not entry.reuse.checked
    assert not has_same_checks(world.nodes["s.stg"], world, other)


def test_checks_that_look_at_other_rows_here_are_to_run() -> None:
    world, relations = with_checks("s.lookup")
    after = taken(world, relations, make_plan(world, observed(relations)))
    assert not has_same_checks(
        world.nodes["s.stg"], world, changed(after, "dev.lookup", version=version(9, "own rows"))
    )
    assert not has_same_checks(
        world.nodes["s.stg"], world, changed(after, "prod.lookup", version=version(9, "new rows"))
    )
