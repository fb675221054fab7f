"""What started a cascade, by name and reason."""

from __future__ import annotations

from dataclasses import replace

from sqb.names import Relation
from sqb.plan.decide import make_plan
from sqb.plan.model import Options, Plan
from sqb.plan.observed import Observed, RelationState
from unit.plan.worlds import built, built_node, node, observed, project, source, version


def roots(plan: Plan) -> dict[str, list[str]]:
    return {n.name: [f"{r.name} ({r.reason})" for r in n.root] for n in plan.nodes if n.root}


CHAIN = (
    node("s.a", "raw.r"),
    node("s.b", "s.a"),
    node("s.v", "s.b", kind="view"),
    node("s.c", "s.v"),
    node("s.other"),
    node("s.d", "s.c", "s.other"),
)


def test_a_source_is_the_root_of_everything_below_it() -> None:
    world = project(*CHAIN, externals=("raw.r",))
    current = built(world, {Relation.parse("raw.r"): source(1)})
    current[Relation.parse("raw.r")] = source(2)
    source_changed = ["raw.r (Source changed)"]
    # The view runs only if the columns of what it reads change, and is no reason of its own for what reads it.
    assert roots(make_plan(world, observed(current))) == dict.fromkeys(
        ["s.a", "s.b", "s.v", "s.c", "s.d"], source_changed
    )


def test_an_edited_node_is_the_root_and_has_none_itself() -> None:
    old, new = project(*CHAIN, externals=("raw.r",)), list(CHAIN)
    current = built(old, {Relation.parse("raw.r"): source(1)})
    new[1] = node("s.b", "s.a", query="other")
    new[4] = node("s.other", config="other")
    names = roots(make_plan(project(*new, externals=("raw.r",)), observed(current)))
    assert names == {
        "s.v": ["s.b (Query changed)"],
        "s.c": ["s.b (Query changed)"],
        "s.d": ["s.b (Query changed)", "s.other (Config changed)"],
    }


def test_a_changed_view_is_the_root_for_its_readers() -> None:
    old, new = project(*CHAIN, externals=("raw.r",)), list(CHAIN)
    current = built(old, {Relation.parse("raw.r"): source(1)})
    new[2] = node("s.v", "s.b", kind="view", query="other")
    names = roots(make_plan(project(*new, externals=("raw.r",)), observed(current)))
    assert names == {"s.c": ["s.v (Query changed)"], "s.d": ["s.v (Query changed)"]}


def test_what_an_earlier_build_made_is_said_to_be_built_since() -> None:
    world = project(*CHAIN, externals=("raw.r",))
    current = built(world, {Relation.parse("raw.r"): source(1)})
    current[Relation.parse("s.a")] = built_node(CHAIN[0], world, current, 900)
    names = roots(make_plan(world, observed(current)))
    assert names["s.b"] == names["s.d"] == ["s.a (Built since)"]
    alone = make_plan(world, observed(current), Options(frozenset({"s.b"})))
    assert roots(alone) == {"s.b": ["s.a (Built since)"]}


def test_a_source_that_is_a_view_is_the_root_each_time() -> None:
    world = project(node("s.a", "raw.r"), node("s.b", "s.a"), externals=("raw.r",))
    current = built(world, {Relation.parse("raw.r"): RelationState(is_view=True, version=version(1))})
    plan = make_plan(world, Observed(current, opaque=frozenset({"raw.r"})))
    assert roots(plan) == {"s.a": ["raw.r (Source changed)"], "s.b": ["raw.r (Source changed)"]}


def test_blocked_nodes_name_what_is_in_the_way() -> None:
    world = project(node("s.a"), node("s.b", "s.a"), node("s.c", "s.b"))
    foreign = {Relation.parse("s.a"): source(1)}
    assert roots(make_plan(world, observed(foreign))) == {
        "s.b": ["s.a (Relation not made by sqb)"],
        "s.c": ["s.a (Relation not made by sqb)"],
    }


def test_checks_that_wait_for_others_name_them() -> None:
    looked_at = node("s.a")
    checked = replace(node("s.b"), checks_hash="c", watches=("s.a",))
    world = project(looked_at, checked)
    current = built(world)
    plan = make_plan(world, observed(current))
    assert [(n.name, n.run_type, n.root) for n in plan.nodes if n.action == "run"] == [("s.b", "check", ())]
    from sqb.plan.observed import compute_checks_token

    b = Relation.parse("s.b")
    current[b] = replace(current[b], checks=compute_checks_token(checked, world, current))
    edited = project(node("s.a", query="other"), checked)
    assert roots(make_plan(edited, observed(current))) == {"s.b": ["s.a (Query changed)"]}


def test_first_runs_have_no_roots_and_plans_round_trip() -> None:
    world = project(*CHAIN, externals=("raw.r",))
    first = make_plan(world, observed({Relation.parse("raw.r"): source(1)}))
    assert roots(first) == {}
    current = built(world, {Relation.parse("raw.r"): source(1)})
    current[Relation.parse("raw.r")] = source(2)
    plan = make_plan(world, observed(current))
    assert Plan.from_json(plan.to_json()) == plan


def test_other_columns_of_a_source_are_a_root_too() -> None:
    world = project(node("s.a", "raw.r"), node("s.b", "s.a"), externals=("raw.r",))
    current = built(world, {Relation.parse("raw.r"): source(1)})
    current[Relation.parse("raw.r")] = source(1, columns="id long, more long")
    plan = make_plan(world, observed(current))
    assert [str(n.reason) for n in plan.nodes] == ["Schema changed", "Upstream changed"]
    assert roots(plan) == {"s.a": ["raw.r (Schema changed)"], "s.b": ["raw.r (Schema changed)"]}
