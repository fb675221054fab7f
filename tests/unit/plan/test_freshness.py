"""What freshness makes of a plan: values observed against values recorded, and what is below them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from sqb.build.history.freshness import list_settled_sources
from sqb.compile.model import Project
from sqb.compile.source_model import DeclaredSource, SourceQuery, Watch
from sqb.names import At, Relation
from sqb.plan.decide import make_plan
from sqb.plan.freshness import Observation, RecordedFreshness, add_freshness, judge_freshness
from sqb.plan.model import Options, Plan
from sqb.plan.observed import Observed, RelationState, Version
from unit.plan.worlds import built, changed, node, project, source, version

NOW = datetime(2024, 1, 2, tzinfo=UTC).timestamp()
HOUR, DAY = 3600.0, 86400.0
X = Relation("raw", "x")


def at(hours: float) -> str:
    """A time so many hours before now, as it is recorded."""
    return datetime.fromtimestamp(NOW - hours * HOUR, UTC).isoformat(timespec="microseconds")


def seen(value: str, kind: str = "timestamp", strategy: str = "column") -> Observation:
    moment = datetime.fromisoformat(value).timestamp() if kind == "timestamp" else None
    return Observation(strategy, kind, value, moment)


def was(value: str, kind: str = "timestamp", strategy: str = "column", hours: float = 5) -> RecordedFreshness:
    return RecordedFreshness(strategy, kind, value, NOW - hours * HOUR)


def watched(world: Project, name: str = "raw.x", **watch: object) -> Project:
    """The project with a declared source that is watched."""
    result = Watch(**{"strategy": "column", "kind": "timestamp", "token": "t", **watch})  # type: ignore[arg-type]
    declared = DeclaredSource(name, Relation.parse(name), At("sources/raw.yml", 2, 9), watch=result)
    return replace(world, sources={**world.sources, name: declared})


def chain(**watch: object) -> Project:
    a, b, c = node("s.a", "raw.x"), node("s.b", "s.a"), node("s.c", "raw.y")
    return watched(project(a, b, c, externals=("raw.x", "raw.y")), **watch)


def lake(world: Project, value: str | None) -> dict[Relation, RelationState]:
    """Everything built while the source was at snapshot 1 and had this value."""
    relations = {X: source(1), Relation("raw", "y"): source(1)}
    if value is None:
        return built(world, relations)
    first = add_freshness(world, Observed(relations), {"raw.x": seen(value)}, {}, NOW)
    return {**built(world, first.relations), X: source(1)}


def planned(
    world: Project,
    relations: dict[Relation, RelationState],
    now: Observation,
    then: RecordedFreshness | None,
    options: Options = Options(),
) -> Plan:
    recorded = {"raw.x": then} if then is not None else {}
    return make_plan(world, add_freshness(world, Observed(relations), {"raw.x": now}, recorded, NOW), options)


def runs(plan: Plan) -> dict[str, str]:
    return {n.name: str(n.reason) for n in plan.nodes if n.action == "run"}


CHANGED = {"s.a": "Source changed", "s.b": "Upstream changed"}


@pytest.mark.parametrize(
    ("lag", "then", "now", "verdict"),
    [
        (None, None, seen(at(2)), "new"),
        (None, was(at(2)), seen(at(2)), "unchanged"),
        (None, was(at(2)), seen(at(1.999)), "changed"),
        (None, was(at(2)), seen(at(3)), "changed"),
        (HOUR, was(at(2)), seen(at(2)), "unchanged"),
        (HOUR, was(at(2)), seen(at(1.5)), "tolerated"),
        (HOUR, was(at(2)), seen(at(1)), "tolerated"),
        (HOUR, was(at(2)), seen(at(0.999)), "changed"),
        (HOUR, was(at(2)), seen(at(2.001)), "changed"),
        (None, was("7", "integer"), seen("7", "integer"), "unchanged"),
        (None, was("7", "integer"), seen("8", "integer"), "changed"),
        (None, was("7", "integer"), seen("6", "integer"), "changed"),
        (None, was("a", "string"), seen("b", "string"), "changed"),
        (None, was("a", "string"), seen("a", "string"), "unchanged"),
        (None, was("7", "integer"), seen("7", "string"), "new"),
        (None, was(at(2), strategy="sql"), seen(at(2)), "new"),
        (None, was("1", "snapshot", "adapter"), seen("1", "snapshot", "adapter"), "unchanged"),
        (None, was("1", "snapshot", "adapter"), seen("2", "snapshot", "adapter"), "changed"),
    ],
)
def test_what_is_news(lag: float | None, then: RecordedFreshness | None, now: Observation, verdict: str) -> None:
    assert judge_freshness(Watch(lag=lag), now, then) == verdict


@pytest.mark.parametrize(
    ("lag", "now", "snapshot", "expected"),
    [
        (None, at(3), 1, {}),
        (None, at(3), 2, {}),  # more rows, but none that is newer
        (None, at(2), 2, CHANGED),
        (None, at(4), 2, CHANGED),  # backwards
        (None, at(2), 1, {}),  # the very rows that were read: there is nothing to be read again
        (HOUR, at(2), 2, {}),
        (HOUR, at(1.9), 2, CHANGED),
        (HOUR, at(3.1), 2, CHANGED),
    ],
)
def test_a_source_changed_when_its_value_and_its_rows_did(
    lag: float | None, now: str, snapshot: int, expected: dict[str, str]
) -> None:
    world = chain(lag=lag)
    relations = {**lake(world, at(3)), X: source(snapshot)}
    assert runs(planned(world, relations, seen(now), was(at(3)))) == expected


def test_what_is_said_of_a_change() -> None:
    world = chain()
    plan = planned(world, {**lake(world, "2024-01-01T00:00:00.000000+00:00"), X: source(2)}, seen(at(2)), was(at(24)))
    assert plan.nodes[0].detail == f"raw.x moved from 2024-01-01T00:00:00.000000+00:00 to {at(2)}"


def test_nothing_recorded_is_unknown_and_so_are_values_of_other_questions() -> None:
    world = chain()
    relations = {**lake(world, at(3)), X: source(2)}
    assert runs(planned(world, relations, seen(at(3)), None)) == CHANGED
    asked_otherwise = chain(token="another")
    assert runs(planned(asked_otherwise, relations, seen(at(3)), was(at(3)))) == CHANGED
    never_observed = {**lake(world, None), X: source(2)}
    assert runs(planned(world, never_observed, seen(at(3)), was(at(3)))) == CHANGED


def test_a_reader_that_missed_what_others_have_seen_runs() -> None:
    world = chain()
    relations = {**lake(world, at(30)), X: source(2)}
    assert runs(planned(world, relations, seen(at(3)), was(at(3)))) == CHANGED


def test_other_columns_are_a_change_whatever_the_value() -> None:
    world = chain()
    relations = {**lake(world, at(3)), X: source(2, "id long, v int")}
    assert runs(planned(world, relations, seen(at(3)), was(at(3)))) == CHANGED | {"s.a": "Schema changed"}


def test_a_view_of_somebody_else_has_versions_when_it_has_values() -> None:
    world = chain()
    relations = {X: RelationState(is_view=True, version=Version(1, (), None, "c")), Relation("raw", "y"): source(1)}

    def look(value: str, then: RecordedFreshness | None, from_: dict[Relation, RelationState]) -> Observed:
        blind = Observed(from_, opaque=frozenset({"raw.x"}))
        return add_freshness(world, blind, {"raw.x": seen(value)}, {"raw.x": then} if then else {}, NOW)

    relations = {**built(world, look(at(3), None, relations).relations), X: relations[X]}
    assert runs(make_plan(world, look(at(3), was(at(3)), relations))) == {}
    assert runs(make_plan(world, look(at(3), None, relations))) == {}
    assert runs(make_plan(world, look(at(2), was(at(3)), relations))) == CHANGED


# --- age ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hours", "warned", "blocked"),
    [(11.9, False, False), (12.1, True, False), (24.1, False, True), (-5, False, False)],
)
def test_sources_that_grow_old(hours: float, warned: bool, blocked: bool) -> None:
    world = chain(warn_after=12 * HOUR, error_after=DAY)
    plan = planned(world, lake(world, at(hours)), seen(at(hours)), was(at(hours)))
    assert bool(plan.warnings) == warned
    by_name = {n.name: (str(n.reason), n.detail) for n in plan.nodes if n.action == "blocked"}
    if blocked:
        assert by_name == {
            "s.a": ("Source too old", "raw.x is 24h 6m old, error_after is 24h"),
            "s.b": ("Upstream blocked", "s.a is blocked"),
        }
    else:
        assert by_name == {}
    if warned:
        assert plan.warnings == ("the source raw.x is 12h 6m old, warn_after is 12h",)


def test_too_old_blocks_through_views_and_whatever_is_forced() -> None:
    a = node("s.v", "raw.x", kind="view")
    world = watched(project(a, node("s.t", "s.v"), externals=("raw.x",)), error_after=DAY)
    relations = built(world, {X: source(1)})
    for options in (Options(), Options(force=True), Options(selected=frozenset({"s.t"}))):
        plan = planned(world, relations, seen(at(48)), was(at(48)), options)
        assert {n.action for n in plan.nodes} == {"blocked"}
    assert plan.nodes[0].reason == "Source too old"


# --- what is recorded ---------------------------------------------------------------------------------------------


def recorded(
    world: Project, relations: dict[Relation, RelationState], now: str, then: RecordedFreshness | None
) -> list[tuple[str, str, str]]:
    known = {"raw.x": then} if then is not None else {}
    observed = add_freshness(world, Observed(relations), {"raw.x": seen(now)}, known, NOW)
    return [(r.source_name, r.target_schema, r.data_version) for r in list_settled_sources(world, observed, "run")]


def test_a_new_value_is_recorded_in_every_schema_below_when_all_have_taken_it_in() -> None:
    a, b = node("s.a", "raw.x"), node("t.b", "s.a")
    world = watched(project(a, b, externals=("raw.x",)), lag=HOUR)
    relations = lake(world, at(3))
    assert recorded(world, relations, at(3), None) == [("raw.x", "s", at(3)), ("raw.x", "t", at(3))]
    assert recorded(world, relations, at(3), was(at(10)))
    assert recorded(world, relations, at(3), was(at(3))) == []
    assert recorded(world, relations, at(3), was(at(3.5))) == []  # the baseline stays while it is tolerated
    behind = changed(relations, "s.a", version=version(500, "other rows"))
    assert recorded(world, behind, at(3), None) == []
    assert recorded(world, {**relations, X: source(2)}, at(3), None) == []


def test_a_model_that_always_runs_does_not_keep_its_source_unknown() -> None:
    world = watched(project(node("s.a", "raw.x", run_despite_unchanged="always"), externals=("raw.x",)))
    assert recorded(world, lake(world, at(3)), at(3), None) == [("raw.x", "s", at(3))]


def test_a_source_that_is_too_old_is_not_recorded() -> None:
    world = chain(error_after=DAY)
    assert recorded(world, lake(world, at(48)), at(48), None) == []


# --- run_despite_unchanged ----------------------------------------------------------------------------------------


def policy(text: str, made_hours: float, observed_hours: float | None, **more: object) -> Plan:
    a = node("s.a", "raw.x", run_despite_unchanged=text)
    world = watched(project(a, node("s.b", "s.a"), externals=("raw.x",)))
    relations = changed(lake(world, at(3)), "s.a", built_at=NOW - made_hours * HOUR, **more)
    then = was(at(3), hours=observed_hours) if observed_hours is not None else None
    return planned(world, relations, seen(at(3)), then)


@pytest.mark.parametrize(
    ("text", "made", "observed", "expected"),
    [
        ("always", 0, 0, True),
        ("24h", 30, 25, True),
        ("24h", 25, 30, True),
        ("24h", 30, 23, False),
        ("24h", 23, 30, False),
        ("24h", 24, 24, True),
        ("24h", 25, None, True),
        ("24h", 23, None, False),
        ("90m", 2, 2, True),
        ("30d", 100, 100, False),
    ],
)
def test_a_policy_runs_a_model_though_nothing_changed(
    text: str, made: float, observed: float | None, expected: bool
) -> None:
    plan = policy(text, made, observed)
    assert runs(plan) == ({"s.a": "Run despite unchanged", "s.b": "Upstream changed"} if expected else {})
    if expected:
        assert [(n.run_type, n.pending) for n in plan.nodes] == [("full", False), ("full", True)]


def test_a_change_is_the_better_reason() -> None:
    a = node("s.a", "raw.x", run_despite_unchanged="always")
    world = watched(project(a, externals=("raw.x",)))
    relations = {**lake(world, at(3)), X: source(2)}
    assert runs(planned(world, relations, seen(at(2)), was(at(3)))) == {"s.a": "Source changed"}
    assert runs(planned(world, relations, seen(at(2)), was(at(3)), Options(force=True))) == {"s.a": "Forced"}


def test_a_policy_does_not_wait_for_what_may_turn_out_identical() -> None:
    a, b = node("s.a", "raw.x"), node("s.b", "s.a", run_despite_unchanged="always")
    world = watched(project(a, b, externals=("raw.x",)))
    plan = planned(world, {**lake(world, at(3)), X: source(2)}, seen(at(2)), was(at(3)))
    assert runs(plan) == {"s.a": "Source changed", "s.b": "Run despite unchanged"}
    assert not plan.nodes[1].pending


# --- files and expressions ----------------------------------------------------------------------------------------


def files(*names: str, shape: str = "csv") -> RelationState:
    listing = tuple((name, 10, 1) for name in names)
    return RelationState(version=Version(definition=f"{shape} {names}", columns=shape, files=listing))


def of_files() -> Project:
    world = project(node("s.a", "raw.f"), node("s.b", "s.a"), externals=("raw.f",))
    declared = DeclaredSource("raw.f", Relation("raw", "f"), At("sources/f.yml"), path="f/*.csv", format="csv")
    return replace(world, sources={"raw.f": declared})


@pytest.mark.parametrize(
    ("now", "detail"),
    [
        (files("a.csv", "b.csv"), None),
        (files("a.csv", "b.csv", "c.csv"), "raw.f: c.csv new"),
        (files("a.csv"), "raw.f: b.csv gone"),
        (files("x.csv", "y.csv", "z.csv"), "raw.f: 3 files new, a.csv and b.csv gone"),
        (files("a.csv", "b.csv", shape="json"), "raw.f: its files are read in another way"),
        (
            RelationState(version=Version(definition="d", columns="csv", files=(("a.csv", 11, 1), ("b.csv", 10, 1)))),
            "raw.f: a.csv changed",
        ),
    ],
)
def test_files_are_compared_by_their_listing(now: RelationState, detail: str | None) -> None:
    world = of_files()
    relations = built(world, {Relation("raw", "f"): files("a.csv", "b.csv")})
    plan = make_plan(world, Observed({**relations, Relation("raw", "f"): now}))
    assert runs(plan) == ({"s.a": "Source changed", "s.b": "Upstream changed"} if detail else {})
    if detail:
        assert plan.nodes[0].detail == detail


def test_an_expression_is_looked_through() -> None:
    world = project(node("s.a", "paid"), node("s.v", "paid", kind="view"), externals=("paid", "raw.x"))

    def with_text(text: str) -> Project:
        query = SourceQuery("SELECT * FROM raw.x", (), ("raw.x",), text)
        return replace(
            world, sources={"paid": DeclaredSource("paid", Relation("", "paid"), At("s"), expression=query, token=text)}
        )

    before = with_text("one")
    relations = built(before, {X: source(1)})
    assert runs(make_plan(before, Observed(relations))) == {}
    assert runs(make_plan(before, Observed({**relations, X: source(2)}))) == {"s.a": "Source changed"}
    plan = make_plan(with_text("two"), Observed(relations))
    assert runs(plan) == {"s.a": "Source changed", "s.v": "Source changed"}
    assert plan.nodes[0].detail == "the expression of paid changed"
