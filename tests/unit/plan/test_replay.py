"""What is done again when a definition changed: the clauses of "Cascade propagation" and "Replay on change"."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqb.compile.model import Node, Project
from sqb.compile.source_model import DeclaredSource, SourceQuery
from sqb.graph import find_reachable, sort_topologically
from sqb.names import At, Relation
from sqb.plan.decide import make_plan
from sqb.plan.model import Options, Plan, PlannedNode, Reason
from sqb.plan.observed import RelationState
from sqb.plan.recorded.commit_identity import CommitIdentity
from sqb.plan.replay import (
    Replay,
    ReplayEvent,
    Signal,
    derive_own_replay,
    encode_events,
    find_strongest,
    get_policy,
    parse_events,
    resolve_replay,
)
from sqb.project.models.cursor import CursorType
from unit.plan.worlds import built, built_node, changed, node, observed, project, source, version, without

RAW = "raw.x"
LAKE = {Relation.parse(RAW): source(1)}


def model(name: str, *above: str, kind: str = "incremental", policy: str | None = None, **settings: Any) -> Node:
    """A model; an incremental one has a cursor, and a policy if it is given one."""
    by_name = dict(settings)
    if kind == "incremental":
        by_name = {"cursor": "ts", **settings, **({"replay_on_change": policy} if policy else {})}
    return node(name, *above, kind=kind, **by_name)


def integer(name: str, *above: str, **settings: Any) -> Node:
    return model(name, *above, cursor_type="integer", **settings)


def redefined(one: Node, what: str = "query") -> Node:
    return replace(one, **{f"{what}_hash": f"other {what}"}, local_hash=f"{one.local_hash} {what}")  # type: ignore[arg-type]


def planned_after(nodes: Iterable[Node], *names: str, what: str = "query", options: Options = Options()) -> Plan:
    """The plan after everything was built and then some definitions changed."""
    before = list(nodes)
    lake = built(project(*before, externals=(RAW,)), LAKE)
    now = [redefined(n, what) if n.name in names else n for n in before]
    return make_plan(project(*now, externals=(RAW,)), observed(lake), options)


def of(plan: Plan, name: str) -> PlannedNode:
    return next(n for n in plan.nodes if n.name == name)


def scopes(plan: Plan) -> dict[str, str]:
    """The incremental models that run, with what they do again; `delta` for nothing."""
    return {
        n.name: (n.replay or {}).get("scope", "delta")
        for n in plan.nodes
        if n.action == "run" and n.kind == "incremental"
    }


# --- replay on change ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "scope", "run_type", "words"),
    [
        (None, "forward", "incremental", ""),
        ("forward", "forward", "incremental", ""),
        ("bounded-14d", "bounded-14d", "incremental", "replays the last 14d (replay_on_change: bounded-14d)"),
        ("full", "full", "backfill", "replays everything (replay_on_change: full)"),
    ],
)
@pytest.mark.parametrize("what", ["query", "config"])
def test_a_changed_model_follows_its_policy(
    policy: str | None, scope: str, run_type: str, words: str, what: str
) -> None:
    result = of(planned_after([model("m.a", RAW, policy=policy)], "m.a", what=what), "m.a")
    assert result.replay == {"scope": scope, "root": "m.a"}
    assert (result.run_type, result.reason) == (run_type, f"{what.capitalize()} changed")
    assert result.detail.endswith(words)


@pytest.mark.parametrize("reason", [Reason.FUNCTION_CHANGED, Reason.SCHEMA_CHANGED])
@pytest.mark.parametrize("policy", ["forward", "bounded-2d", "full"])
def test_changed_functions_and_columns_are_changes_too(reason: Reason, policy: str) -> None:
    one = model("m.a", RAW, policy=policy)
    assert str(derive_own_replay(one, reason, RelationState())) == policy


@pytest.mark.parametrize(
    ("reason", "scope"),
    [
        (Reason.FIRST_RUN, None),
        (Reason.RELATION_MISSING, None),
        (Reason.FULL_REFRESH, None),
        (Reason.FORCED, None),
        (Reason.SOURCE_CHANGED, None),
        (Reason.UPSTREAM_CHANGED, None),
        (Reason.HOOKS_MISSING, None),
    ],
)
def test_what_else_makes_a_model_run_is_no_change_of_its_definition(reason: Reason, scope: str | None) -> None:
    own_replay = derive_own_replay(model("m.a", RAW, policy="bounded-1d"), reason, RelationState())
    assert (str(own_replay) if own_replay else None) == scope


def test_new_rows_are_followed_by_a_delta_from_the_cursor() -> None:
    one = model("m.a", RAW, policy="full", lookback="2d")
    world = project(one, externals=(RAW,))
    lake = dict(LAKE)
    lake[one.relation] = built_node(one, world, lake, 1, cursor_max="2024-01-05 00:00:00Z")
    lake[Relation.parse(RAW)] = source(2)
    result = of(make_plan(world, observed(lake)), "m.a")
    assert (result.reason, result.run_type, result.replay) == ("Source changed", "incremental", None)
    assert result.detail.endswith("; from 2024-01-05 00:00:00Z on, less 2d")


def test_a_first_run_begins_where_the_cursor_does() -> None:
    one = model("m.a", RAW, cursor_start="2024-01-01")
    result = of(make_plan(project(one, externals=(RAW,)), observed(LAKE)), "m.a")
    assert (result.reason, result.run_type, result.detail) == ("First run", "backfill", "from 2024-01-01 on")


@pytest.mark.parametrize(("key", "value"), [("lookback", "3d"), ("replay_on_change", "full")])
def test_a_policy_is_no_part_of_the_identity(key: str, value: str) -> None:
    one = model("m.a", RAW)
    lake = built(project(one, externals=(RAW,)), LAKE)
    now = replace(one, settings={**one.settings, key: value})
    assert make_plan(project(now, externals=(RAW,)), observed(lake)).nothing_to_do


def test_a_change_that_drift_hides_is_still_one() -> None:
    one = model("m.a", RAW, policy="full")
    lake = built(project(one, externals=(RAW,)), LAKE)
    lake = changed(lake, "m.a", identity=CommitIdentity(), last_identity=lake[one.relation].identity, drifted=True)
    result = of(make_plan(project(redefined(one), externals=(RAW,)), observed(lake)), "m.a")
    assert (result.reason, result.replay) == ("Changed outside sqb", {"scope": "full", "root": "m.a"})


# --- windows that are asked for --------------------------------------------------------------------------------------


def test_a_window_that_is_asked_for_runs_its_models_and_is_all_that_they_do() -> None:
    nodes = [model("m.a", RAW, policy="full"), model("m.b", "m.a"), model("m.t", RAW, kind="table")]
    plan = planned_after(nodes, "m.a", options=Options(start_cursor="2024-01-01", end_cursor="2024-02-01"))
    assert scopes(plan) == {"m.a": "forward", "m.b": "forward"}
    assert of(plan, "m.a").detail.endswith("window [2024-01-01, 2024-02-01)")
    assert (of(plan, "m.b").reason, of(plan, "m.b").run_type) == ("Forced", "incremental")
    assert of(plan, "m.t").action == "skip"


def test_what_was_after_the_end_of_a_window_is_left_for_the_next_build() -> None:
    one = model("m.a", RAW)
    world = project(one, externals=(RAW,))
    lake = {**LAKE, one.relation: built_node(one, world, LAKE, 1, window="[1, 5)")}
    result = of(make_plan(world, observed(lake)), "m.a")
    assert (result.reason, result.run_type) == ("Source changed", "incremental")
    assert result.detail == "the last run was for [1, 5) only"


def test_windows_survive_json() -> None:
    plan = planned_after([model("m.a", RAW, policy="full")], "m.a", options=Options(end_cursor="2024-02-01"))
    assert Plan.from_json(plan.to_json()) == plan


# --- what cascades ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["query", "config"])
def test_every_model_below_a_changed_one_is_marked(what: str) -> None:
    nodes = [model("m.a", RAW), model("m.b", "m.a"), node("m.c", "m.b"), node("m.v", "m.c", kind="view")]
    nodes += [model("m.d", "m.v"), model("m.other", RAW)]
    plan = planned_after(nodes, "m.a", what=what)
    runs = {n.name: str(n.reason) for n in plan.nodes if n.action == "run" and n.kind != "view"}
    assert runs == {"m.a": f"{what.capitalize()} changed"} | dict.fromkeys(["m.b", "m.c", "m.d"], "Upstream changed")
    assert all(of(plan, name).replay == {"scope": "forward", "root": "m.a"} for name in ("m.b", "m.d"))


@pytest.mark.parametrize("kind", ["table", "merge", "tracked", "append", "scd2", "view"])
def test_a_change_above_goes_forward_whatever_it_was_made_in(kind: str) -> None:
    plan = planned_after([node("m.a", RAW, kind=kind), model("m.b", "m.a"), integer("m.c", "m.b")], "m.a")
    assert scopes(plan) == {"m.b": "forward", "m.c": "forward"}
    assert of(plan, "m.b").run_type == "incremental"
    assert of(plan, "m.b").replay == {"scope": "forward", "root": "m.a"}


def test_a_policy_below_a_table_that_changed_is_handed_down_from_there() -> None:
    nodes = [node("m.a", RAW), model("m.b", "m.a", policy="bounded-3d"), node("m.t", "m.b"), model("m.c", "m.t")]
    assert scopes(planned_after(nodes, "m.a")) == {"m.b": "bounded-3d", "m.c": "bounded-3d"}


def test_a_default_for_all_kinds_is_no_policy_of_a_table() -> None:
    nodes = [model("m.a", RAW, policy="full"), node("m.t", "m.a", replay_on_change="forward"), model("m.b", "m.t")]
    assert scopes(planned_after(nodes, "m.a", "m.t")) == {"m.a": "full", "m.b": "full"}


@pytest.mark.parametrize("kind", ["table", "append", "scd2", "merge"])
def test_a_full_replay_always_cascades(kind: str) -> None:
    nodes = [
        model("m.a", RAW, policy="full"),
        node("m.b", "m.a", kind=kind),
        integer("m.c", "m.b"),
        model("m.d", "m.a"),
    ]
    assert scopes(planned_after(nodes, "m.a")) == {"m.a": "full", "m.c": "full", "m.d": "full"}


def test_a_bounded_replay_cascades_to_cursors_of_its_type_only() -> None:
    nodes = [model("m.a", RAW, policy="bounded-7d"), model("m.b", "m.a"), integer("m.c", "m.a"), model("m.d", "m.c")]
    plan = planned_after(nodes, "m.a")
    assert scopes(plan) == {"m.a": "bounded-7d", "m.b": "bounded-7d", "m.c": "forward", "m.d": "forward"}
    assert of(plan, "m.b").detail.endswith("replays the last 7d, as m.a changed")
    assert of(plan, "m.b").run_type == "incremental"


def test_a_bounded_replay_passes_through_a_view() -> None:
    nodes = [model("m.a", RAW, policy="bounded-7d"), node("m.v", "m.a", kind="view"), model("m.b", "m.v")]
    assert scopes(planned_after(nodes, "m.a")) == {"m.a": "bounded-7d", "m.b": "bounded-7d"}


@pytest.mark.parametrize("kind", ["table", "merge", "tracked", "append", "scd2"])
def test_a_bounded_replay_passes_through_tables(kind: str) -> None:
    nodes = [model("m.a", RAW, policy="bounded-7d"), node("m.t", "m.a", kind=kind), model("m.b", "m.t")]
    plan = planned_after(nodes, "m.a")
    assert scopes(plan) == {"m.a": "bounded-7d", "m.b": "bounded-7d"}
    assert of(plan, "m.b").replay == {"scope": "bounded-7d", "root": "m.a"}
    # A change of the table between adds nothing to it.
    assert scopes(planned_after(nodes, "m.a", "m.t")) == {"m.a": "bounded-7d", "m.b": "bounded-7d"}


def test_below_a_view_that_changed_only_ones_own_policy_replays() -> None:
    nodes = [node("m.v", RAW, kind="view"), model("m.b", "m.v"), model("m.c", "m.v", policy="bounded-1d")]
    plan = planned_after(nodes, "m.v")
    assert scopes(plan) == {"m.b": "forward", "m.c": "bounded-1d"}
    assert of(plan, "m.b").replay == {"scope": "forward", "root": "m.v"}


def test_below_an_expression_that_changed_only_ones_own_policy_replays() -> None:
    nodes = [
        node("m.t", "ev"),
        model("m.b", "ev"),
        model("m.c", "ev", policy="full"),
        model("m.d", "m.t", policy="full"),
    ]

    def world(token: str) -> Project:
        query = SourceQuery(f"SELECT '{token}' FROM raw.x", (), (RAW,), token)
        declared = DeclaredSource("ev", Relation("", "ev"), At("sources/raw.yml"), expression=query, token=token)
        return replace(project(*nodes, externals=(RAW, "s.ev")), sources={"ev": declared})

    plan = make_plan(world("new"), observed(built(world("old"), LAKE)))
    assert scopes(plan) == {"m.b": "forward", "m.c": "full", "m.d": "full"}
    assert of(plan, "m.c").replay == of(plan, "m.d").replay == {"scope": "full", "root": "ev"}
    # Its rows are data.
    lake = {**built(world("old"), LAKE), Relation.parse(RAW): source(2)}
    assert scopes(make_plan(world("old"), observed(lake))) == {"m.b": "delta", "m.c": "delta", "m.d": "delta"}


def test_the_content_of_a_seed_is_data() -> None:
    nodes = [node("seeds.s", kind="seed"), model("m.b", "seeds.s", policy="full")]
    assert scopes(planned_after(nodes, "seeds.s")) == {"m.b": "delta"}


def test_new_rows_of_a_source_are_no_replay_however_far_down() -> None:
    nodes = [node("m.t", RAW), model("m.b", "m.t", policy="full"), model("m.c", "m.b", policy="bounded-1d")]
    world = project(*nodes, externals=(RAW,))
    lake = {**built(world, LAKE), Relation.parse(RAW): source(2)}
    assert scopes(make_plan(world, observed(lake))) == {"m.b": "delta", "m.c": "delta"}


# --- one's own policy ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("upstream", ["forward", "bounded-7d", "full"])
@pytest.mark.parametrize("own", ["forward", "bounded-1d", "full"])
def test_ones_own_policy_wins(upstream: str, own: str) -> None:
    nodes = [model("m.a", RAW, policy=upstream), model("m.b", "m.a", policy=own), model("m.c", "m.b")]
    plan = planned_after(nodes, "m.a")
    assert scopes(plan) == {"m.a": upstream, "m.b": own, "m.c": own}
    assert of(plan, "m.c").replay == {"scope": own, "root": "m.a"}


def test_ones_own_policy_wins_over_a_window_that_does_not_cross() -> None:
    nodes = [model("m.a", RAW, policy="bounded-7d"), integer("m.b", "m.a", policy="bounded-500")]
    assert scopes(planned_after(nodes, "m.a")) == {"m.a": "bounded-7d", "m.b": "bounded-500"}


def test_a_model_without_a_policy_inherits_also_when_it_changed_itself() -> None:
    nodes = [model("m.a", RAW, policy="full"), model("m.b", "m.a"), model("m.c", "m.b")]
    plan = planned_after(nodes, "m.a", "m.b")
    assert scopes(plan) == {"m.a": "full", "m.b": "full", "m.c": "full"}
    assert of(plan, "m.b").replay == {"scope": "full", "root": "m.a"}
    assert of(plan, "m.b").detail.endswith("; replays everything, as m.a changed")


def test_a_policy_holds_when_the_model_and_its_upstream_changed() -> None:
    nodes = [node("m.a", RAW), model("m.b", "m.a", policy="bounded-2d"), model("m.c", "m.b", policy="forward")]
    plan = planned_after(nodes, "m.a", "m.b", "m.c")
    assert scopes(plan) == {"m.b": "bounded-2d", "m.c": "forward"}
    assert of(plan, "m.b").replay == {"scope": "bounded-2d", "root": "m.b"}


def test_of_two_changes_that_go_forward_ones_own_is_the_root() -> None:
    plan = planned_after([model("m.a", RAW), model("m.b", "m.a")], "m.a", "m.b")
    assert of(plan, "m.b").replay == {"scope": "forward", "root": "m.b"}


def test_a_log_that_changed_hands_down_what_it_was_handed() -> None:
    nodes = [model("m.a", RAW, policy="full"), node("m.l", "m.a", kind="append"), model("m.b", "m.l")]
    assert scopes(planned_after(nodes, "m.a", "m.l")) == {"m.a": "full", "m.b": "full"}


def test_other_columns_above_do_not_hide_what_is_handed_down() -> None:
    one = model("m.b", "m.a")
    handed = [Signal("m.a", Replay("full", "m.a"))]
    assert resolve_replay(one, derive_own_replay(one, Reason.SCHEMA_CHANGED, RelationState()), handed) == Replay(
        "full", "m.a"
    )


# --- several upstreams -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "scope", "root"),
    [
        ("full", "bounded-99w", "full", "m.a"),
        ("bounded-99w", "full", "full", "m.b"),
        ("bounded-1d", "bounded-2d", "bounded-2d", "m.b"),
        ("bounded-90m", "bounded-1h", "bounded-90m", "m.a"),
        ("bounded-24h", "bounded-1d", "bounded-24h", "m.a"),
        ("bounded-1d", "forward", "bounded-1d", "m.a"),
        ("forward", "bounded-1s", "bounded-1s", "m.b"),
        ("full", "full", "full", "m.a"),
        ("forward", "forward", "forward", "m.a"),
    ],
)
def test_the_most_aggressive_action_wins(first: str, second: str, scope: str, root: str) -> None:
    nodes = [model("m.b", RAW, policy=second), model("m.a", RAW, policy=first), model("m.z", "m.a", "m.b")]
    assert of(planned_after(nodes, "m.a", "m.b"), "m.z").replay == {"scope": scope, "root": root}


def test_ties_go_to_the_name_that_comes_first_and_not_to_its_root() -> None:
    above = [model(name, RAW, policy="full") for name in ("m.z", "m.y")]
    nodes = [*above, model("m.a", "m.z"), model("m.b", "m.y"), model("m.c", "m.a", "m.b")]
    assert of(planned_after(nodes, "m.y", "m.z"), "m.c").replay == {"scope": "full", "root": "m.z"}


def test_integers_are_compared_as_numbers() -> None:
    signals = [
        Signal("m.a", Replay("bounded", "m.a", "9", "integer")),
        Signal("m.b", Replay("bounded", "m.b", "10", "integer")),
    ]
    assert find_strongest(integer("m.z"), signals) == Replay("bounded", "m.b", "10", "integer")


# --- builds that do a part of it -------------------------------------------------------------------------------------


def test_what_was_handed_down_is_not_forgotten_by_those_that_failed_or_were_not_selected() -> None:
    nodes = [model("m.a", RAW, policy="full"), model("m.b", "m.a"), model("m.c", "m.b")]
    lake = built(project(*nodes, externals=(RAW,)), LAKE)
    world = project(redefined(nodes[0]), *nodes[1:], externals=(RAW,))
    lake[world.nodes["m.a"].relation] = built_node(world.nodes["m.a"], world, lake, 500, Reason.QUERY_CHANGED)
    plan = make_plan(world, observed(lake))
    assert scopes(plan) == {"m.b": "full", "m.c": "full"}
    assert not of(plan, "m.b").pending and of(plan, "m.b").run_type == "full"
    # More rows come before it is built: they do not hide what has to be done.
    lake[Relation.parse(RAW)] = source(2)
    lake[world.nodes["m.a"].relation] = built_node(world.nodes["m.a"], world, lake, 501, Reason.SOURCE_CHANGED)
    assert scopes(make_plan(world, observed(lake))) == {"m.b": "full", "m.c": "full"}
    lake[world.nodes["m.b"].relation] = built_node(world.nodes["m.b"], world, lake, 502, Reason.UPSTREAM_CHANGED)
    assert scopes(make_plan(world, observed(lake))) == {"m.c": "full"}
    lake[world.nodes["m.c"].relation] = built_node(world.nodes["m.c"], world, lake, 503, Reason.UPSTREAM_CHANGED)
    assert make_plan(world, observed(lake)).nothing_to_do
    # And once it is done, new rows are new rows again.
    lake[Relation.parse(RAW)] = source(3)
    assert scopes(make_plan(world, observed(lake))) == {"m.a": "delta", "m.b": "delta", "m.c": "delta"}


@pytest.mark.parametrize(
    ("read", "scope"),
    [(("id",), "delta"), (("id", "v"), "delta"), *(((*r,), "forward") for r in (["new"], ["id", "new"], ["*"]))],
)
def test_a_change_of_other_columns_is_no_replay_when_new_rows_come(read: tuple[str, ...], scope: str) -> None:
    a, b = node("m.a", RAW), replace(model("m.b", "m.a"), reads=("m.a",), reading=(read,))
    lake = built(project(a, b, externals=(RAW,)), LAKE)
    world = project(redefined(a), b, externals=(RAW,))
    one = world.nodes["m.a"]
    lake[one.relation] = built_node(one, world, lake, 800, Reason.QUERY_CHANGED, (frozenset({"id", "v"}),))
    lake[Relation.parse(RAW)] = source(2)
    lake[one.relation] = built_node(one, world, lake, 801, Reason.SOURCE_CHANGED)
    assert scopes(make_plan(world, observed(lake))) == {"m.b": scope}


@pytest.mark.parametrize(("policies", "scope"), [((None, "full"), "full"), (("bounded-2d", None), "bounded-2d")])
def test_more_changes_than_are_kept_hand_down_what_all_of_them_did(policies: Any, scope: str) -> None:
    nodes = [model("m.a", RAW), model("m.b", "m.a"), model("m.c", "m.a")]
    lake = built(project(*nodes, externals=(RAW,)), LAKE)
    for number in range(20):
        # The first or the second change asks for more than the others do.
        policy = policies[number] if number < len(policies) else None
        nodes[0] = replace(redefined(nodes[0]), settings=model("m.a", RAW, policy=policy).settings)
        world = project(*nodes, externals=(RAW,))
        lake[nodes[0].relation] = built_node(nodes[0], world, lake, 600 + number, Reason.QUERY_CHANGED)
        if number == 1:
            lake[nodes[2].relation] = built_node(nodes[2], world, lake, 599, Reason.UPSTREAM_CHANGED)
    assert len(parse_events(lake[nodes[0].relation].identity)) == 8
    assert scopes(make_plan(world, observed(lake)))["m.b"] == scope


def test_nine_edits_of_a_table_do_not_make_a_model_that_missed_them_anew() -> None:
    nodes = [node("m.a", RAW), model("m.b", "m.a")]
    lake = built(project(*nodes, externals=(RAW,)), LAKE)
    for number in range(9):
        nodes[0] = redefined(nodes[0])
        world = project(*nodes, externals=(RAW,))
        lake[nodes[0].relation] = built_node(nodes[0], world, lake, 600 + number, Reason.QUERY_CHANGED)
    assert scopes(make_plan(world, observed(lake))) == {"m.b": "forward"}


def test_windows_of_different_cursors_are_not_joined() -> None:
    kinds: list[CursorType] = ["timestamp", "integer"] * 5
    events = [ReplayEvent(f"run {i}", Replay("bounded", "m.a", "1", kind)) for i, kind in enumerate(kinds)]
    assert [e.run_id for e in parse_events(CommitIdentity(replays=encode_events(events, None)))] == [
        e.run_id for e in events
    ]


def test_joined_events_hold_all_windows_and_only_what_all_left_unchanged() -> None:
    events = [
        ReplayEvent(
            f"run {i}", Replay("bounded", "m.a", f"{i}d", "timestamp", ((f"s{i}", f"e{i}"),)), (frozenset("xy"),)
        )
        for i in range(1, 9)
    ]
    last = ReplayEvent("run 9", Replay("forward", "m.a"), (frozenset("yz"),))
    text = encode_events([*events, last], ReplayEvent("run 10", Replay("forward", "m.a")))
    result = parse_events(CommitIdentity(replays=text))
    assert len(result) == 8 and result[-1].run_id == "run 10"
    assert result[0].run_id == "run 3" and result[0].replay.length == "3d"
    assert result[0].replay.spans == (("s1", "e1"), ("s2", "e2"), ("s3", "e3"))
    assert result[0].unchanged == (frozenset("xy"),)


@pytest.mark.parametrize(("kind", "scope"), [("table", "forward"), ("incremental", "full")])
def test_events_of_older_versions_hand_down_a_scope_only_from_incremental_models(kind: str, scope: str) -> None:
    nodes = [model("m.a", RAW, kind=kind), model("m.b", "m.a")]
    world = project(*nodes, externals=(RAW,))
    lake = built(world, LAKE)
    lake[nodes[0].relation] = built_node(nodes[0], world, lake, 600, Reason.SOURCE_CHANGED)
    written = json.dumps([["run 600", "full", "m.a", "", None, []]])
    stood = lake[nodes[0].relation]
    lake[nodes[0].relation] = replace(stood, identity=replace(stood.identity, replays=written))
    assert scopes(make_plan(world, observed(lake))) == {"m.b": scope}


@pytest.mark.parametrize("kind", ["table", "incremental"])
def test_what_is_made_from_nothing_hands_down_nothing(kind: str) -> None:
    nodes = [model("m.a", RAW, kind=kind), model("m.b", "m.a", policy="full")]
    world = project(*nodes, externals=(RAW,))
    plan = make_plan(world, observed(without(built(world, LAKE), "m.a"), known=("m.a",)))
    assert scopes(plan) == {**({"m.a": "full"} if kind == "incremental" else {}), "m.b": "delta"}


@pytest.mark.parametrize("kind", ["table", "incremental"])
def test_a_full_refresh_hands_down_nothing_but_what_changed(kind: str) -> None:
    nodes = [model("m.a", RAW, kind=kind), model("m.b", "m.a"), model("m.c", "m.a", policy="full")]
    before = project(*nodes, externals=(RAW,))
    options = Options(selected=frozenset({"m.a"}), full_refresh=True)
    for one, expected in ((nodes[0], {"m.b": "delta", "m.c": "delta"}), (redefined(nodes[0]), None)):
        world = project(one, *nodes[1:], externals=(RAW,))
        lake = built(before, LAKE)
        planned = of(make_plan(world, observed(lake), options), "m.a")
        assert planned.run_type in ("full", "backfill")
        lake[one.relation] = built_node(one, world, lake, 600, planned.reason)
        assert scopes(make_plan(world, observed(lake))) == (expected or {"m.b": "forward", "m.c": "full"})


def test_a_replay_that_left_the_same_rows_is_none() -> None:
    nodes = [node("m.a", RAW), model("m.b", "m.a")]
    lake = built(project(*nodes, externals=(RAW,)), LAKE)
    world = project(redefined(nodes[0]), nodes[1], externals=(RAW,))
    stood = lake[nodes[0].relation]
    made = built_node(world.nodes["m.a"], world, lake, 700, Reason.QUERY_CHANGED)
    lake[nodes[0].relation] = replace(made, version=version(700, stood.version.content))
    assert make_plan(world, observed(lake)).nothing_to_do


# --- random graphs ---------------------------------------------------------------------------------------------------

POLICIES = (None, "forward", "bounded-1d", "bounded-24h", "bounded-7d", "full")


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Project, Project, dict[Relation, RelationState]]:
    """A project that was built, and the same one with some definitions changed."""
    before: list[Node] = []
    for i in range(draw(st.integers(1, 9))):
        above = draw(st.lists(st.sampled_from([n.name for n in before] or [RAW]), unique=True, max_size=3)) or [RAW]
        kind = draw(st.sampled_from(["incremental", "incremental", "table", "view", "append"]))
        name = f"m.{draw(st.sampled_from('abcxyz'))}{i}"
        type_ = draw(st.sampled_from(["timestamp", "timestamp", "integer"]))
        policy = draw(st.sampled_from(POLICIES)) if kind == "incremental" and type_ == "timestamp" else None
        settings = {"cursor_type": type_} if kind == "incremental" else {}
        before.append(model(name, *above, kind=kind, policy=policy, **settings))
    changes = draw(st.sets(st.sampled_from([n.name for n in before])))
    now = [redefined(n) if n.name in changes else n for n in before]
    then = project(*before, externals=(RAW,))
    return then, project(*now, externals=(RAW,)), built(then, LAKE)


def decisions(plan: Plan) -> dict[str, tuple[Any, ...]]:
    return {n.name: (n.action, n.run_type, str(n.reason), n.detail, n.replay) for n in plan.nodes}


@given(graphs(), st.randoms(use_true_random=False))
def test_the_order_of_nodes_does_not_matter(graph: Any, random: Any) -> None:
    _, world, lake = graph
    nodes = list(world)
    random.shuffle(nodes)
    by_name = {n.name: n for n in nodes}
    order, _ = sort_topologically({n.name: n.upstream for n in nodes})
    other = project(*(by_name[name] for name in order), externals=(RAW,))
    assert decisions(make_plan(other, observed(lake))) == decisions(make_plan(world, observed(lake)))


@given(graphs())
def test_built_one_by_one_each_model_does_what_was_planned_for_all_at_once(graph: Any) -> None:
    _, world, lake = graph
    whole = make_plan(world, observed(lake))
    for number, planned in enumerate(whole.nodes):
        if planned.action != "run":
            continue
        one = world.nodes[planned.name]
        again = of(make_plan(world, observed(lake)), planned.name)
        assert again.replay == planned.replay, planned.name
        lake[one.relation] = built_node(one, world, lake, 1000 + number, again.reason)
    assert make_plan(world, observed(lake)).nothing_to_do


@given(graphs())
def test_a_replay_has_a_root_that_changed_above_it(graph: Any) -> None:
    then, world, lake = graph
    plan = make_plan(world, observed(lake))
    # Other columns are a change of what a view says, though its own text is the same.
    other_columns = {n.name for n in plan.nodes if n.reason is Reason.SCHEMA_CHANGED}
    for planned in plan.nodes:
        if planned.replay is not None:
            root = planned.replay["root"]
            assert then.nodes[root].local_hash != world.nodes[root].local_hash or root in other_columns


def test_the_root_is_the_view_that_changed_and_not_one_above_it() -> None:
    nodes = [
        model("m.b", RAW, kind="view"),
        model("m.a", "m.b", kind="view"),
        model("m.c", "m.a"),
    ]
    assert of(planned_after(nodes, "m.b"), "m.c").replay == {"scope": "forward", "root": "m.b"}
    assert of(planned_after(nodes, "m.a"), "m.c").replay == {"scope": "forward", "root": "m.a"}


@given(graphs())
def test_only_a_policy_of_an_incremental_model_replays_what_was(graph: Any) -> None:
    _, world, lake = graph
    for planned in make_plan(world, observed(lake)).nodes:
        if planned.replay is not None and planned.replay["scope"] != "forward":
            above = [world.nodes[name] for name in find_reachable([planned.name], {n.name: n.upstream for n in world})
                     if name in world.nodes]  # fmt: skip
            assert any(str(get_policy(one)) == planned.replay["scope"] for one in above)


@given(graphs())
def test_without_a_change_nothing_is_done_again(graph: Any) -> None:
    then, _, lake = graph
    assert make_plan(then, observed(lake)).nothing_to_do
    lake[Relation.parse(RAW)] = source(2)
    assert all(n.replay is None for n in make_plan(then, observed(lake)).nodes)


def test_what_resolves_to_nothing() -> None:
    assert resolve_replay(model("m.a"), None, ()) is None
