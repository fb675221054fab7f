"""How a node is brought up to date, decided from values alone."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sqb.compile.model import Node, Project
from sqb.names import Relation
from sqb.plan.decide import make_plan
from sqb.plan.model import Reason
from sqb.plan.observed import Observed, SnapshotChange
from sqb.plan.recorded.commit_identity import CommitIdentity
from sqb.plan.recorded.group_state import NamedState, build_state_relation, encode_states, parse_states
from sqb.plan.recorded.timings import record_timing
from sqb.plan.refresh.choose import (
    ChangeSize,
    ObservedTable,
    Obstacle,
    QueryObservation,
    Refresh,
    TableChange,
    _explain_work,
    _find_missing_key,
    build_case,
    choose_keys,
    choose_refresh,
    choose_way,
    list_compared,
    measure_change,
)
from sqb.plan.refresh.cost import CostEstimate
from sqb.plan.refresh.states import list_additive_operators, list_wanted_states, propose_for
from sqb.project.config.settings import CostGate
from sqb.sql.delta.facts import Facts, Key
from support.pieces import facts_of
from unit.plan.worlds import built, built_node, node, observed, project, source

TABLES = {"o": {"id": "int", "cid": "int"}, "c": {"id": "int", "name": "string"}}


def table(index: int, name: str, rows: int, changed: int | None = None, old: int | None = None) -> TableChange:
    return TableChange(index, Relation("raw", name), rows, old, SnapshotChange(), "changelog", changed)


def test_rows_that_were_rewritten_again_and_again_are_not_more_than_there_are() -> None:
    assert (
        CostGate(0, 0.3).explain_rebuild(5, 17) == "100% of 5 input rows were rewritten: over 30% a rebuild is faster"
    )
    assert str(measure_change((table(0, "o", 4, 17, old=1), table(1, "c", 1)))) == "17 rows changed, 5 input rows"
    assert str(measure_change((table(0, "o", 1, 1, old=1),))) == "1 row changed, 1 input row"
    assert str(measure_change((table(0, "o", 4, None, old=1),))) == "an unknown number of rows changed, 4 input rows"


def test_a_key_that_does_not_restrict_what_changed_is_known_before_anything_runs() -> None:
    query = "SELECT o.id AS i, c.name AS n FROM raw.o AS o LEFT JOIN raw.c AS c ON o.cid < c.id"
    facts = facts_of(query, TABLES)[1]
    assert facts.kind == "keyed"
    assert choose_keys(facts, (table(0, "o", 4, 1, old=1), table(1, "c", 4)), "result")
    assert not choose_keys(facts, (table(0, "o", 4), table(1, "c", 4, 1, old=1)), "result")


A, B = node("s.a", "raw.x"), node("s.b", "s.a")
CHAIN = project(A, B, externals=("raw.x",))
X = Relation("raw", "x")
FIRST = built(CHAIN, {X: source(1)})
BUILT = {**FIRST, A.relation: built_node(A, CHAIN, FIRST, 100, content="n:1:a")}
LINEAR = Facts("linear", keys=(), linear_slots=(0,), columns=(None,))
KEYED = Facts("keyed", "GROUP BY", 7, (Key(((0, "id"),)),), columns=(None,))
OPAQUE = Facts("opaque", "LIMIT", 20, columns=(None,))
APPENDED = SnapshotChange(5, 0, steps=(2,), is_append=True)
MANY = 2_000_000


def world(facts: Facts | None, change: SnapshotChange = APPENDED, rows: int = MANY) -> Observed:
    """A source that moved from its first to its second snapshot, and what is known of the model that reads it."""
    now = replace(source(2), rows=rows)
    seen = observed({**BUILT, X: now})
    return replace(
        seen,
        queries={"s.a": QueryObservation((ObservedTable("raw.x", X, now),), facts)},
        changes={("raw.x", 1, 2): change},
    )


def planned(seen: Observed, of: Project = CHAIN) -> tuple[str, dict[str, str]]:
    match = next(n for n in make_plan(of, seen).nodes if n.name == "s.a")
    assert match.reason is Reason.SOURCE_CHANGED and match.incremental is not None
    return match.run_type, dict(match.incremental)


def chosen(facts: Facts | None, change: SnapshotChange = APPENDED, rows: int = MANY, of: Node = A) -> Refresh:
    return choose_refresh(build_case(of, project(of, B, externals=("raw.x",)), world(facts, change, rows)))


def test_a_plan_says_how_a_node_is_brought_up_to_date() -> None:
    size = "5 rows changed, 2,000,000 input rows"
    assert planned(world(LINEAR)) == (
        "incremental",
        {"class": "delta", "why": "only changed rows flow through", "size": size},
    )
    assert planned(world(KEYED)) == ("incremental", {"class": "groups", "why": "GROUP BY", "key": "id", "size": size})
    assert planned(world(OPAQUE)) == ("full", {"class": "opaque", "why": "LIMIT"})
    few = "10 input rows: under 1,000,000 a rebuild is faster"
    assert planned(world(LINEAR, rows=10)) == ("full", {"class": "delta", "why": few})
    # What the columns of a table are not known for has no class, and nothing is followed.
    assert planned(replace(world(None), queries={"s.a": QueryObservation((ObservedTable("raw.x", X),))})) == (
        "full",
        {"class": "opaque", "why": "raw.x is a view that sqb did not make"},
    )
    # A plan for which nothing was observed says who runs, and no more.
    assert make_plan(CHAIN, replace(world(LINEAR), queries={})).nodes[0].run_type == "full"


def test_what_waits_for_others_has_the_class_of_its_query_alone() -> None:
    seen = world(LINEAR)
    below = QueryObservation((ObservedTable("s.a", A.relation, BUILT[A.relation]),), KEYED)
    entry = make_plan(CHAIN, replace(seen, queries={**seen.queries, "s.b": below})).nodes[1]
    assert entry.pending and entry.run_type == "full"
    assert entry.incremental == {"class": "groups", "why": "GROUP BY", "key": "id"}


def test_the_choice_shows_what_it_compared() -> None:
    refresh = chosen(KEYED)
    assert (refresh.way, refresh.obstacle, refresh.facts) == ("keyed", None, KEYED)
    assert refresh.size == ChangeSize(MANY, 5) and refresh.tables == (
        TableChange(0, X, MANY, 1, APPENDED, "appended", 5),
    )
    assert chosen(OPAQUE).obstacle == Obstacle("opaque", "LIMIT", 20)
    assert str(chosen(OPAQUE).obstacle) == "the query is opaque: LIMIT"


@pytest.mark.parametrize(
    ("change", "mode", "rows"),
    [
        (APPENDED, "appended", 5),
        (SnapshotChange(5, 2, steps=(2,)), "changelog", 7),
        (SnapshotChange(5, 2, steps=(2,), has_delete_files=True), "files", None),
        (SnapshotChange(None, None, steps=(2,), has_delete_files=True, rows_in_files=9), "files", 9),
        (SnapshotChange(5, 2, steps=(2,), has_same_columns=False), "files", 7),
        (SnapshotChange(), "files", None),
    ],
)
def test_a_change_is_read_in_the_cheapest_exact_way(change: SnapshotChange, mode: str, rows: int | None) -> None:
    forced = replace(A, settings={**A.settings, "refresh": "incremental"})
    (table_change,) = chosen(LINEAR, change, of=forced).tables
    assert (table_change.read_mode, table_change.changed_rows) == (mode, rows)
    # A change of unknown size counts as the whole table.
    obstacle = chosen(LINEAR, change).obstacle
    assert (obstacle.kind if obstacle is not None else None) == ("cost" if rows is None else None)


def test_what_stands_against_it_is_named_in_order() -> None:
    full = replace(A, settings={**A.settings, "refresh": "full"})
    assert chosen(OPAQUE, of=full).obstacle == Obstacle("setting", "refresh full")
    expired = SnapshotChange(is_expired=True)
    assert chosen(OPAQUE, expired).obstacle == Obstacle("opaque", "LIMIT", 20)
    gone = "the version of raw.x that it was made from has expired"
    assert chosen(LINEAR, expired, rows=10).obstacle == Obstacle("change", gone)
    case = build_case(A, CHAIN, world(LINEAR))
    assert choose_refresh(replace(case, reason=Reason.FORCED)).obstacle == Obstacle("reason", "forced")
    assert choose_refresh(replace(case, current=None)).obstacle == Obstacle("base", "there is nothing to start from")
    failed = replace(case, query=replace(case.query, facts=None, failure="it broke"))
    assert choose_refresh(failed).obstacle == Obstacle("query", "it broke")


def test_only_what_the_choice_compares_is_asked_for() -> None:
    assert list_compared(build_case(A, CHAIN, world(LINEAR))) == (("raw.x", 1, 2),)
    same = replace(world(LINEAR), relations=BUILT)
    tables = (ObservedTable("raw.x", X, BUILT[X]),)
    assert list_compared(build_case(A, CHAIN, replace(same, queries={"s.a": QueryObservation(tables, LINEAR)}))) == ()


STAR = """SELECT c.name AS n, sum(o.id) AS s FROM raw.o AS o LEFT JOIN raw.c AS c ON o.cid = c.id + 0
    GROUP BY c.name || ''"""


def additive_case(sql: str, group_state: str = "", rows: int = 4, result: int = 4, **settings: Any) -> Any:
    """As much of a case as the way to follow changes depends on."""
    template, facts = facts_of(sql, TABLES)
    node = SimpleNamespace(kind="table", settings=settings)
    tables = [SimpleNamespace(state=SimpleNamespace(rows=rows)) for _ in template.names]
    query = SimpleNamespace(facts=facts, tables=tables)
    current = SimpleNamespace(identity=CommitIdentity(group_state=group_state), rows=result)
    return SimpleNamespace(node=node, query=query, current=current, gate=CostGate(min_rows=10))


def test_the_way_depends_on_the_table_that_changed() -> None:
    o_changed = (table(0, "o", 4, 1, old=1), table(1, "c", 4))
    c_changed = (table(0, "o", 4), table(1, "c", 4, 1, old=1))
    linear = additive_case("SELECT o.id AS i, c.name AS n FROM raw.o AS o LEFT JOIN raw.c AS c ON o.cid < c.id")
    assert (choose_way(linear, o_changed), choose_way(linear, c_changed)) == ("linear", "operators")
    named = encode_states([NamedState(2, 7, "t")])
    assert choose_way(additive_case(STAR), o_changed) == "operators"
    totals = "SELECT sum(o.id) AS s FROM raw.o AS o LEFT JOIN raw.c AS c ON o.cid = c.id"
    assert choose_way(additive_case(totals), o_changed) is None
    assert choose_way(additive_case(totals, named), o_changed) == "operators"
    assert choose_way(additive_case(totals, named, aggregate_state=False), o_changed) is None
    assert propose_for(additive_case(STAR, named), frozenset({0, 1})).uses_states  # type: ignore[union-attr]
    assert not propose_for(additive_case(STAR), frozenset({0, 1})).uses_states  # type: ignore[union-attr]


def test_figures_of_groups_are_kept_where_they_pay() -> None:
    assert not list_wanted_states(additive_case(STAR, rows=9))
    assert list_wanted_states(additive_case(STAR, rows=20))
    # The totals of one table are computed as fast as changes are added to them.
    totals = "SELECT sum(o.id) AS s FROM raw.o AS o"
    assert not list_wanted_states(additive_case(totals, rows=40))
    assert list_wanted_states(additive_case(totals, rows=200))
    assert list_wanted_states(additive_case(STAR, refresh="incremental"))
    assert not list_wanted_states(additive_case(STAR, rows=50, refresh="full"))
    assert not list_wanted_states(additive_case(STAR, rows=50, aggregate_state=False))
    assert not list_wanted_states(additive_case(STAR, rows=50, on_source_delete="keep"))
    # A key that the result shows is enough.
    assert not list_wanted_states(
        additive_case("SELECT o.cid AS c, sum(o.id) AS s FROM raw.o AS o GROUP BY o.cid", rows=5)
    )


def test_a_rebuild_for_want_of_figures_says_whether_they_will_be_there() -> None:
    totals = "SELECT sum(o.id) AS s FROM raw.o AS o LEFT JOIN raw.c AS c ON o.cid = c.id"
    changed = (table(0, "o", 4, 1, old=1), table(1, "c", 4))
    refused = encode_states([NamedState(2, 0, "t")])

    def explain(group_state: str) -> str:
        obstacle = _find_missing_key(additive_case(totals, group_state, refresh="incremental"), changed)
        assert obstacle is not None
        return obstacle.why

    assert explain("") == "there is no state of its groups yet to add changes to"
    assert explain(refused) == "its aggregates do not add up exactly, by the types of what they are given"


def test_a_rebuild_with_some_of_its_figures_names_its_obstacle() -> None:
    """Of two aggregates one does not add up exactly, so that no build will ever make its figures."""
    nested = """SELECT sum(o.id) AS s FROM raw.o AS o
        LEFT JOIN (SELECT c.id, count(*) AS n FROM raw.c AS c GROUP BY c.id) AS g ON o.cid = g.id"""
    changed = (table(0, "o", 4, 1, old=1), table(1, "c", 4, 1, old=1))
    inner, root = sorted(list_additive_operators(additive_case(nested).query.facts))

    def explain(*named: NamedState) -> str:
        obstacle = _find_missing_key(additive_case(nested, encode_states(named), refresh="incremental"), changed)
        assert obstacle is not None
        return str(obstacle)

    refused, kept = NamedState(root, 0, ""), NamedState(inner, 7, "t")
    assert explain(kept) == "there is no state of its groups yet to add changes to"
    assert explain(refused, kept) == "the query is opaque: an aggregate over all rows"


def test_figures_of_groups_are_kept_where_rebuilds_took_long() -> None:
    """What sums up costly expressions takes longer than the rows tell."""
    case = additive_case("SELECT sum(o.id) AS s FROM raw.o AS o", rows=6_000_000)
    case.gate = CostGate()
    assert not list_wanted_states(case)
    for seconds, pays in ((1.0, False), (3.0, True)):
        case.current.identity = CommitIdentity(timings=record_timing("", "full", seconds, 6_000_000))
        assert bool(list_wanted_states(case)) == pays


def test_few_large_groups_are_added_up_although_a_key_tells_them_apart() -> None:
    grouped = "SELECT o.cid AS c, sum(o.id) AS s FROM raw.o AS o GROUP BY o.cid"
    changed = (table(0, "o", 400_000, 1, old=1),)
    assert list_wanted_states(additive_case(grouped, rows=400_000))
    assert choose_way(additive_case(grouped, rows=400_000), changed) is None
    named = encode_states([NamedState(1, 7, "t")])
    assert choose_way(additive_case(grouped, named, rows=400_000), changed) == "operators"
    # More of them are evaluated by their keys, as are those whose distinct values would have to be kept.
    assert choose_way(additive_case(grouped, rows=400_000, result=5), changed) == "keyed"
    distinct = "SELECT o.cid AS c, count(DISTINCT o.id) AS s FROM raw.o AS o GROUP BY o.cid"
    assert choose_way(additive_case(distinct, rows=400_000), changed) == "keyed"
    assert choose_way(additive_case(grouped, rows=400_000, aggregate_state=False), changed) == "keyed"


def test_a_state_is_named_by_a_commit() -> None:
    states = {3: NamedState(3, 2**62, "abc"), 7: NamedState(7, 5, ""), 9: NamedState(9, 6, "d", 2, 1_000)}
    assert parse_states(encode_states(states.values())) == states
    assert encode_states([]) == ""
    # The form of before had one state for each model.
    for broken in ("", "null", "[]", '["1", "a"]', "[1", '{"a": 1}', '[5, "a"]', '[["1", 2, "a"]]'):
        assert parse_states(broken) == {}
    assert build_state_relation(Relation("marts", "revenue"), 3) == Relation("marts__sqb_state", "revenue__3")


class KnownWork(CostEstimate):
    """An estimate of which nothing has to be worked out."""

    def __init__(self, refresh_work: float, rebuild_work: float) -> None:
        self.refresh_work, self.rebuild_work, self.refresh, self.rebuild = refresh_work, rebuild_work, 5_000, 10**7


def explained(refresh_work: float, rebuild_work: float, timings: str = "") -> bool:
    """Whether following changes is given up for its cost, on ten million rows."""
    estimate = KnownWork(refresh_work, rebuild_work)
    state = SimpleNamespace(rows=10**7)
    case: Any = SimpleNamespace(
        current=SimpleNamespace(identity=CommitIdentity(timings=timings)),
        query=SimpleNamespace(tables=[SimpleNamespace(state=state)]),
        gate=CostGate(),
    )
    return _explain_work(case, estimate) is not None


def test_a_first_refresh_is_weighed_by_its_work_and_by_what_rebuilds_took() -> None:
    assert not explained(24e6, 30e6)
    assert explained(28e6, 30e6)
    # About 1.2 s: a rebuild that takes no longer is taken; one that takes much longer speaks for trying a refresh.
    assert explained(24e6, 30e6, record_timing("", "full", 1.2, 10**7))
    assert not explained(24e6, 30e6, record_timing("", "full", 1.5, 10**7))
    # Of more work only a second rebuild tells: the first build may have been the first work of a new Spark.
    assert explained(28e6, 20e6, record_timing("", "full", 3, 10**7))
    assert explained(28e6, 20e6, record_timing(record_timing("", "full", 9, 10**7), "full", 2, 10**7))
    assert not explained(28e6, 20e6, record_timing(record_timing("", "full", 9, 10**7), "full", 3, 10**7))
    # Once both were run, their times decide, and not an estimate.
    both = record_timing(record_timing("", "full", 1.2, 10**7), "incremental", 1.0, 5_000)
    assert not explained(28e6, 20e6, both)
    # The time of a refresh alone says nothing of a rebuild.
    assert explained(28e6, 20e6, record_timing("", "incremental", 1.0, 5_000))
