"""What is read in another target: models that are neither selected nor built here."""

from __future__ import annotations

from dataclasses import replace

from sqb.compile.model import OtherTarget, Project
from sqb.names import Relation
from sqb.plan.decide import make_plan
from sqb.plan.defer import defer_project
from sqb.plan.model import Options
from sqb.plan.observed import list_inputs
from unit.plan.test_reuse import RAW, here, prod
from unit.plan.worlds import built, built_node, node, observed, source, without

STG, FCT, VIEW = node("s.stg", "raw.x"), node("s.fct", "s.stg"), node("s.v", "s.stg", kind="view")
TOP = node("s.top", "s.v", "s.fct")
CHAIN = here(STG, FCT, VIEW, TOP, how="defer")
BUILT = built(prod(CHAIN), {RAW: source(1)})


def relations_of(world: Project) -> dict[str, str]:
    return {n.name: str(n.relation) for n in world}


def seen(world: Project, relations, *selected: str) -> Project:
    return defer_project(world, observed(relations), frozenset(selected))


def test_what_is_neither_selected_nor_built_here_is_read_there() -> None:
    world = seen(CHAIN, BUILT, "s.fct")
    assert relations_of(world) == {"s.stg": "prod.stg", "s.fct": "dev.fct", "s.v": "dev.v", "s.top": "dev.top"}
    plan = make_plan(world, observed(BUILT), Options(selected=frozenset({"s.fct"})))
    assert [(n.action, str(n.reason), n.notices) for n in plan.nodes] == [
        ("run", "First run", ("reads s.stg from prod.stg",))
    ]
    assert [i.key for i in list_inputs(world.nodes["s.fct"], world)] == ["prod.stg"], "and that is what is recorded"


def test_what_was_read_there_is_followed_there() -> None:
    chosen = Options(selected=frozenset({"s.fct"}))
    world = seen(CHAIN, BUILT, "s.fct")
    after = {**BUILT, Relation("dev", "fct"): built_node(world.nodes["s.fct"], world, BUILT, 9)}
    assert make_plan(seen(CHAIN, after, "s.fct"), observed(after), chosen).nothing_to_do
    moved = {**after, Relation("prod", "stg"): replace(after[Relation("prod", "stg")], version=source(5).version)}
    (fct,) = make_plan(seen(CHAIN, moved, "s.fct"), observed(moved), chosen).nodes
    assert (fct.action, str(fct.reason)) == ("run", "Upstream changed")
    own = {**after, Relation("dev", "stg"): after[Relation("prod", "stg")]}
    (fct,) = make_plan(seen(CHAIN, own, "s.fct"), observed(own), chosen).nodes
    assert (str(fct.reason), fct.detail, fct.notices) == ("Upstream changed", "s.stg was not read before", ())


def test_what_is_built_here_is_read_here() -> None:
    own = {**BUILT, Relation("dev", "stg"): BUILT[Relation("prod", "stg")]}
    assert relations_of(seen(CHAIN, own, "s.fct"))["s.stg"] == "dev.stg"


def test_a_view_there_reads_what_is_there() -> None:
    own = {**BUILT, Relation("dev", "stg"): BUILT[Relation("prod", "stg")]}
    # The view is only there, and it shows the rows of prod.stg: whoever reads it reads these, as everybody does.
    assert relations_of(seen(CHAIN, own, "s.top"))["s.stg"] == "prod.stg"
    assert relations_of(seen(CHAIN, own, "s.top"))["s.v"] == "prod.v"
    assert relations_of(seen(CHAIN, own, "s.stg", "s.top"))["s.v"] == "dev.v", "its table is made anew here"
    blocked = make_plan(
        seen(CHAIN, own, "s.stg", "s.top"), observed(own), Options(selected=frozenset({"s.stg", "s.top"}))
    )
    assert [(n.name, n.action) for n in blocked.nodes] == [("s.stg", "skip"), ("s.top", "blocked")]


def test_what_is_nowhere_blocks() -> None:
    relations = without(BUILT, "prod.stg")
    (fct,) = make_plan(seen(CHAIN, relations, "s.fct"), observed(relations), Options(frozenset({"s.fct"}))).nodes
    assert (fct.action, str(fct.reason)) == ("blocked", "Upstream missing")


def test_a_whole_build_reads_nothing_elsewhere() -> None:
    assert defer_project(CHAIN, observed(BUILT), None) == CHAIN
    reusing = replace(
        CHAIN, other_target=OtherTarget("prod", "clone", CHAIN.other_target.relations if CHAIN.other_target else {})
    )
    assert seen(reusing, BUILT, "s.fct") == reusing


def test_an_upstream_that_is_out_of_date_there_is_warned_about() -> None:
    edited = here(replace(STG, local_hash="new"), FCT, how="defer")
    plan = make_plan(seen(edited, BUILT, "s.fct"), observed(BUILT), Options(selected=frozenset({"s.fct"})))
    assert plan.warnings == ("s.fct reads s.stg, which is out of date and not selected: s.stg: Query changed",)


def test_what_is_read_there_is_judged_by_what_is_there() -> None:
    chosen = Options(selected=frozenset({"s.top"}))
    assert make_plan(seen(CHAIN, BUILT, "s.top"), observed(BUILT), chosen).warnings == ()
    moved = {**BUILT, RAW: source(2)}
    assert make_plan(seen(CHAIN, moved, "s.top"), observed(moved), chosen).warnings == (
        "s.top reads s.fct, which is out of date and not selected: s.stg: Source changed",
        "s.top reads s.v, which is out of date and not selected: s.stg: Source changed",
    )
