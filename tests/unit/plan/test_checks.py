"""When checks run by themselves: they, or what they look at, are not what passed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqb.checks.node_checks import NodeChecks
from sqb.compile.model import Node, Project
from sqb.names import Relation
from sqb.plan.decide import make_plan
from sqb.plan.model import Options
from sqb.plan.observed import Observed, RelationState, compute_checks_token
from unit.plan.worlds import built, changed, node, observed, project, source, version

A = replace(node("s.a", "raw.x"), checks=NodeChecks(), checks_hash="same")
B = node("s.b", "s.a")
RAW = {Relation("raw", "x"): source(1), Relation("raw", "y"): source(1)}
CHAIN = project(A, B, externals=("raw.x",))


def passed(world: Project, relations: Mapping[Relation, RelationState]) -> dict[Relation, RelationState]:
    """A world in which every node's checks have passed."""
    by_name = dict(relations)
    for one in world:
        by_name[one.relation] = replace(by_name[one.relation], checks=compute_checks_token(one, world, relations))
    return by_name


def decided(world: Project, seen: Observed, options: Options = Options()) -> dict[str, tuple[str, str, str, bool]]:
    return {n.name: (n.action, n.run_type, str(n.reason), n.pending) for n in make_plan(world, seen, options).nodes}


SKIP = ("skip", "skip", "Normal", False)
CHECK = ("run", "check", "Checks changed", False)


def test_checks_that_passed_are_not_asked_again() -> None:
    assert decided(CHAIN, observed(passed(CHAIN, built(CHAIN, RAW)))) == {"s.a": SKIP, "s.b": SKIP}


def test_checks_that_never_passed_are_asked_and_nothing_below_runs() -> None:
    assert decided(CHAIN, observed(built(CHAIN, RAW))) == {"s.a": CHECK, "s.b": SKIP}


def test_other_checks_are_asked() -> None:
    seen = observed(passed(CHAIN, built(CHAIN, RAW)))
    other = project(replace(A, checks_hash="other"), B, externals=("raw.x",))
    assert decided(other, seen) == {"s.a": CHECK, "s.b": SKIP}


def test_a_node_without_checks_is_not_asked_about_those_that_it_had() -> None:
    seen = observed(passed(CHAIN, built(CHAIN, RAW)))
    assert (
        decided(project(replace(A, checks=NodeChecks(), checks_hash=""), B, externals=("raw.x",)), seen)["s.a"] == SKIP
    )


def test_a_definition_that_changed_is_the_reason_and_not_its_checks() -> None:
    seen = observed(built(CHAIN, RAW))
    edited = project(replace(A, query_hash="new", local_hash="new"), B, externals=("raw.x",))
    assert decided(edited, seen)["s.a"][:3] == ("run", "backfill", "Query changed")


def watching(reader: Node) -> Project:
    return project(replace(reader, watches=("raw.y",)), B, externals=("raw.x", "raw.y"))


def test_what_only_checks_read_makes_them_be_asked_again() -> None:
    world = watching(A)
    seen = passed(world, built(world, RAW))
    assert decided(world, observed(seen))["s.a"] == SKIP
    moved = {**seen, Relation("raw", "y"): source(2)}
    assert decided(world, observed(moved)) == {"s.a": CHECK, "s.b": SKIP}


def test_a_compaction_of_what_checks_read_is_no_change() -> None:
    world = watching(A)
    seen = passed(world, built(world, RAW))
    there = seen[Relation("raw", "y")]
    compacted = replace(there.version, snapshot_id=9, same_rows=(9, 1))
    assert decided(world, observed({**seen, Relation("raw", "y"): replace(there, version=compacted)}))["s.a"] == SKIP


def test_what_checks_read_comes_first_and_decides() -> None:
    parent = node("s.parent", "raw.y")
    world = project(parent, replace(A, watches=("s.parent",)), externals=("raw.x", "raw.y"))
    seen = passed(world, built(world, RAW))
    moved = {**seen, Relation("raw", "y"): source(2)}
    decision = decided(world, observed(moved))
    assert decision["s.a"] == ("run", "check", "Checks changed", True)
    (planned,) = [n for n in make_plan(world, observed(moved)).nodes if n.name == "s.a"]
    assert "s.parent" in planned.upstream
    without = {r: s for r, s in seen.items() if r != parent.relation}
    assert decided(world, observed(without), Options(frozenset({"s.a"})))["s.a"][:3] == (
        "blocked",
        "skip",
        "Upstream missing",
    )


def test_the_checks_of_a_view_follow_the_rows_beneath_it() -> None:
    view = replace(node("s.v", "s.a", kind="view"), checks=NodeChecks(), checks_hash="v")
    table = node("s.a", "raw.x")
    world = project(table, view, externals=("raw.x",))
    seen = passed(world, built(world, RAW))
    assert decided(world, observed(seen))["s.v"] == SKIP
    moved = {**seen, Relation("raw", "x"): source(2)}
    # Its columns may change with the table's; if they do not, its checks are asked all the same.
    assert decided(world, observed(moved))["s.v"] == ("run", "full", "Upstream changed", True)
    remade = changed(passed(world, built(world, RAW)), "s.a", version=version(200, "other rows"))
    assert decided(world, observed(remade))["s.v"] == CHECK


def test_columns_that_no_check_uses_are_no_reason_to_ask_again() -> None:
    """`references(customer, s.people.id)` passed on people as they were; since then only another column changed."""
    people = node("s.people", "raw.y")
    checked = replace(
        A, checks=NodeChecks(relations={"people": "s.people"}, columns={"s.people": ("id",)}), watches=("s.people",)
    )
    world = project(people, checked, B, externals=("raw.x", "raw.y"))
    before = passed(world, built(world, RAW))
    then = before[people.relation].version
    for remaining, expected in (
        ('[["%s", "%s", ["id", "name"]]]', SKIP),
        ('[["%s", "%s", ["name"]]]', CHECK),
        ("%s%s", CHECK),
    ):
        now = replace(
            then, snapshot_id=999, content="other", unchanged_columns=remaining % (then.content, then.columns)
        )
        assert decided(world, observed(changed(before, "s.people", version=now)))["s.a"] == expected, remaining
    unknown = replace(checked, checks=NodeChecks(relations={"people": "s.people"}))
    now = replace(
        then, snapshot_id=999, content="other", unchanged_columns=f'[["{then.content}", "{then.columns}", ["id"]]]'
    )
    worlds = project(people, unknown, B, externals=("raw.x", "raw.y"))
    assert decided(worlds, observed(changed(before, "s.people", version=now)))["s.a"] == CHECK
