"""`on_drift`: what becomes of a table that something else wrote to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from sqb.compile.model import Project
from sqb.names import Relation
from sqb.plan.decide import make_plan
from sqb.plan.model import Options, Plan
from sqb.plan.observed import RelationState, Version
from sqb.plan.recorded.commit_identity import CommitIdentity
from unit.plan.worlds import built, changed, node, observed, project, source

A = node("s.a", "raw.x")
C = node("s.c", "s.b")
X = Relation("raw", "x")
WARNING = (
    "s.b: s.b was written or replaced by something else; it is left as it is (on_drift: warn), --force rebuilds it"
)


def world(policy: str, query: str = "q", config: str = "c") -> Project:
    return project(A, node("s.b", "s.a", query=query, config=config, on_drift=policy), C, externals=("raw.x",))


def written(current: RelationState) -> RelationState:
    """What stands after somebody added rows."""
    return replace(
        current,
        identity=CommitIdentity(),
        drifted=True,
        last_identity=current.identity,
        version=Version(999, (999,), None, "id long"),
    )


def altered(current: RelationState) -> RelationState:
    """What stands after somebody added a column."""
    return replace(current, drifted=True, version=replace(current.version, content=None, columns="id long, n int"))


def replaced(current: RelationState) -> RelationState:
    """What stands after somebody made another table of that name."""
    return RelationState(version=Version(999, (999,), None, "id long"))


def reasons(plan: Plan) -> dict[str, tuple[str, str]]:
    return {n.name: (n.action, str(n.reason)) for n in plan.nodes}


LAKE = built(world("rebuild"), {X: source(1)})
B = Relation("s", "b")


@pytest.mark.parametrize("drift", [written, altered, replaced])
def test_rebuild(drift: Callable[[RelationState], RelationState]) -> None:
    project_ = world("rebuild")
    plan = make_plan(project_, observed({**LAKE, B: drift(LAKE[B])}, known=("s.b",)))
    assert reasons(plan)["s.b"] == ("run", "Changed outside sqb") and plan.warnings == ()


@pytest.mark.parametrize("drift", [written, altered, replaced])
def test_fail_blocks_it_and_what_is_below(drift: Callable[[RelationState], RelationState]) -> None:
    project_ = world("fail")
    seen = observed({**LAKE, B: drift(LAKE[B])}, known=("s.b",))
    plan = make_plan(project_, seen)
    assert reasons(plan) == {
        "s.a": ("skip", "Normal"),
        "s.b": ("blocked", "Changed outside sqb"),
        "s.c": ("blocked", "Upstream blocked"),
    }
    detail = plan.nodes[1].detail
    assert detail.startswith("s.b was written or") and "on_drift is fail, --force rebuilds it" in detail
    for options in (Options(force=True), Options(full_refresh=True)):
        assert reasons(make_plan(project_, seen, options))["s.b"] == ("run", "Changed outside sqb")


def test_fail_blocks_whatever_else_changed() -> None:
    project_ = world("fail", query="other")
    seen = observed({**LAKE, B: written(LAKE[B]), X: source(2)})
    assert reasons(make_plan(project_, seen))["s.b"] == ("blocked", "Changed outside sqb")
    assert reasons(make_plan(project_, observed(LAKE)))["s.b"] == ("run", "Query changed")


@pytest.mark.parametrize("drift", [written, altered, replaced])
def test_warn_leaves_it_and_says_so(drift: Callable[[RelationState], RelationState]) -> None:
    project_ = world("warn")
    seen = observed({**LAKE, B: drift(LAKE[B])}, known=("s.b",))
    plan = make_plan(project_, seen)
    assert reasons(plan)["s.a"] == reasons(plan)["s.b"] == ("skip", "Normal")
    assert plan.warnings == (WARNING.replace("replaced", "altered") if drift is altered else WARNING,)
    # What reads it reads the rows that stand there.
    assert reasons(plan)["s.c"] == ("run", "Schema changed" if drift is altered else "Upstream changed")
    for options in (Options(force=True), Options(full_refresh=True)):
        forced = make_plan(project_, seen, options)
        assert reasons(forced)["s.b"] == ("run", "Changed outside sqb") and forced.warnings == ()


@pytest.mark.parametrize("drift", [written, altered])
def test_warn_runs_when_something_else_changed(drift: Callable[[RelationState], RelationState]) -> None:
    lake = {**LAKE, B: drift(LAKE[B])}
    edited = world("warn", query="other")
    plan = make_plan(edited, observed(lake))
    assert reasons(plan)["s.b"] == ("run", "Query changed") and plan.warnings == ()
    configured = world("warn", config="other")
    assert reasons(make_plan(configured, observed(lake)))["s.b"] == ("run", "Config changed")
    project_ = world("warn")
    moved = observed(changed(lake, "s.a", version=Version(777, (777,), "other rows", "id long")))
    plan = make_plan(project_, moved)
    assert reasons(plan)["s.b"] == ("run", "Upstream changed") and plan.warnings == ()
    assert plan.nodes[1].run_type == "full" and not plan.nodes[1].pending
    above = make_plan(project_, observed({**lake, X: source(2)}))
    assert above.nodes[1].pending and len(above.warnings) == 1


def test_no_drift_no_difference() -> None:
    for policy in ("rebuild", "warn", "fail"):
        project_ = world(policy)
        plan = make_plan(project_, observed(LAKE))
        assert {a for a, _ in reasons(plan).values()} == {"skip"} and plan.warnings == ()


def test_another_kind_is_a_change_of_the_project_and_no_drift() -> None:
    for policy in ("warn", "fail"):
        project_ = project(A, node("s.b", "s.a", kind="view", config="view", on_drift=policy), C, externals=("raw.x",))
        plan = make_plan(project_, observed(LAKE))
        assert reasons(plan)["s.b"] == ("run", "Config changed") and plan.warnings == ()


def test_a_table_that_is_not_ours_is_foreign_whatever_the_policy() -> None:
    for policy in ("rebuild", "warn", "fail"):
        project_ = world(policy)
        plan = make_plan(project_, observed({**LAKE, B: source(9)}))
        assert reasons(plan)["s.b"] == ("blocked", "Relation not made by sqb")
