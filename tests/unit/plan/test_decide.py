"""What runs and why: every reason, their order, and what selection and failures make of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sqb.compile.model import Hook, Node, Project
from sqb.compile.source_model import DeclaredSource, SourceQuery
from sqb.names import At, Relation
from sqb.plan.decide import make_plan
from sqb.plan.model import Options, Plan, Reason
from sqb.plan.observed import Observed, RelationState
from sqb.plan.recorded.commit_identity import CommitIdentity
from sqb.sql.text.spans import Reference
from unit.plan.worlds import (
    built,
    built_node,
    changed,
    node,
    observed,
    project,
    source,
    version,
    without,
)

A, B, C = node("s.a", "raw.x"), node("s.b", "s.a"), node("s.c", "s.b")
CHAIN = project(A, B, C, externals=("raw.x",))
RAW = {Relation("raw", "x"): source(1)}
BUILT = built(CHAIN, RAW)


def reasons(plan: Plan) -> dict[str, tuple[str, str]]:
    return {n.name: (n.action, str(n.reason)) for n in plan.nodes}


def decided(world: Project, seen: Observed, name: str, options: Options = Options()) -> tuple[str, str, str, str]:
    entry = {n.name: n for n in make_plan(world, seen, options).nodes}[name]
    return entry.action, entry.run_type, str(entry.reason), entry.detail


def test_a_new_project_runs_for_the_first_time() -> None:
    plan = make_plan(CHAIN, observed(RAW))
    assert reasons(plan) == dict.fromkeys(CHAIN.nodes, ("run", "First run"))
    assert {n.run_type for n in plan.nodes} == {"backfill"}
    assert plan.summary == {"run": 3, "skip": 0, "blocked": 0}
    assert not plan.nothing_to_do


def test_a_built_project_has_nothing_to_do() -> None:
    plan = make_plan(CHAIN, observed(BUILT))
    assert reasons(plan) == dict.fromkeys(CHAIN.nodes, ("skip", "Normal"))
    assert {n.run_type for n in plan.nodes} == {"skip"}
    assert plan.nothing_to_do


def test_a_relation_that_was_built_before_and_is_gone_is_missing() -> None:
    seen = observed(without(BUILT, "s.c"), known=("s.c",))
    assert decided(CHAIN, seen, "s.c") == ("run", "backfill", "Relation missing", "")
    assert decided(CHAIN, observed(without(BUILT, "s.c")), "s.c")[2] == "First run"


def test_another_query_is_a_reason_with_both_hashes() -> None:
    world = project(A, B, replace(C, query_hash="new query", local_hash="new"), externals=("raw.x",))
    plan = make_plan(world, observed(BUILT))
    assert reasons(plan) == {"s.a": ("skip", "Normal"), "s.b": ("skip", "Normal"), "s.c": ("run", "Query changed")}
    assert decided(world, observed(BUILT), "s.c") == ("run", "backfill", "Query changed", "query s.c q → new quer")


def test_a_seeds_query_is_its_content() -> None:
    seed = node("seeds.a", kind="seed")
    world = project(replace(seed, query_hash="other", local_hash="other"))
    assert decided(world, observed(built(project(seed))), "seeds.a")[2:] == (
        "Query changed",
        "content seeds.a  → other",
    )


def test_another_configuration_of_the_same_query_is_its_own_reason() -> None:
    world = project(A, B, replace(C, config_hash="d", local_hash="new"), externals=("raw.x",))
    assert decided(world, observed(BUILT), "s.c") == ("run", "backfill", "Config changed", "c → d")


def test_query_and_configuration_both_changed_is_the_query() -> None:
    world = project(A, B, replace(C, config_hash="d", query_hash="new", local_hash="new"), externals=("raw.x",))
    assert decided(world, observed(BUILT), "s.c")[2] == "Query changed"


def test_a_function_that_changed_is_named_with_both_hashes() -> None:
    before = node("s.d", "raw.x", functions={"net": "0123456789", "old": "1", "same": "2", "@m": "3"})
    now = node("s.d", "raw.x", functions={"net": "9876543210", "new": "1", "same": "2", "@m": "4"})
    lake = built(project(before, externals=("raw.x",)), RAW)
    detail = "function net 01234567 → 98765432, function new is used now, function old is no longer used"
    decision = decided(project(now, externals=("raw.x",)), observed(lake), "s.d")
    assert decision == ("run", "backfill", "Function changed", detail)


def test_a_macro_is_named_when_the_text_that_calls_it_is_the_same() -> None:
    before = replace(node("s.d", "raw.x", query="old", functions={"@m": "3"}), written_hash="text")
    now = replace(node("s.d", "raw.x", query="new", functions={"@m": "4"}), written_hash="text")
    lake = built(project(before, externals=("raw.x",)), RAW)

    def seen(one: Node) -> tuple[str, str]:
        return decided(project(one, externals=("raw.x",)), observed(lake), "s.d")[2:]

    assert seen(now) == ("Function changed", "macro m 3 → 4")
    assert seen(replace(now, written_hash="other text"))[0] == "Query changed"
    # What else could have changed the query that comes out is a variable.
    assert seen(replace(now, functions=before.functions))[0] == "Query changed"
    assert seen(replace(now, config_hash="new"))[0] == "Query changed"


def test_a_changed_function_cascades_like_a_changed_query() -> None:
    lake = built(project(node("s.a", "raw.x", functions={"f": "1"}), B, C, externals=("raw.x",)), RAW)
    now = project(node("s.a", "raw.x", functions={"f": "2"}), B, C, externals=("raw.x",))
    plan = make_plan(now, observed(lake))
    assert {n.name: (str(n.reason), n.pending) for n in plan.nodes} == {
        "s.a": ("Function changed", False),
        "s.b": ("Upstream changed", True),
        "s.c": ("Upstream changed", True),
    }


def test_a_hash_that_todays_code_writes_otherwise_is_no_change() -> None:
    renamed = project(A, B, replace(C, local_hash="as written today"), externals=("raw.x",))
    seen = Observed(BUILT, renewed_hashes={C.local_hash: "as written today"})
    assert decided(renamed, seen, "s.c")[2] == "Normal"
    assert decided(renamed, Observed(BUILT), "s.c")[2] == "Query changed"


@pytest.mark.parametrize(
    "current",
    [
        replace(BUILT[C.relation], drifted=True),
        replace(BUILT[C.relation], is_view=True),
    ],
)
def test_what_somebody_else_did_to_a_table_is_undone(current: RelationState) -> None:
    seen = observed({**BUILT, C.relation: current})
    assert decided(CHAIN, seen, "s.c")[:3] == ("run", "full", "Changed outside sqb")


def test_a_table_of_ours_that_was_replaced_is_built_again() -> None:
    seen = observed({**BUILT, C.relation: source(9)}, known=("s.c",))
    assert decided(CHAIN, seen, "s.c")[:3] == ("run", "full", "Changed outside sqb")


def test_a_table_that_is_not_ours_is_left_alone_unless_forced() -> None:
    seen = observed({**BUILT, B.relation: source(9)})
    plan = make_plan(CHAIN, seen)
    assert reasons(plan) == {
        "s.a": ("skip", "Normal"),
        "s.b": ("blocked", "Relation not made by sqb"),
        "s.c": ("blocked", "Upstream blocked"),
    }
    # Nor is one that a loader filled.
    filled = replace(source(9), identity=CommitIdentity(loader="orders", content="a:0:0:0"))
    assert reasons(make_plan(CHAIN, observed({**BUILT, B.relation: filled}))) == reasons(plan)
    assert "--force" in decided(CHAIN, seen, "s.b")[3]
    assert plan.summary["blocked"] == 2
    assert reasons(make_plan(CHAIN, seen, Options(force=True)))["s.b"] == ("run", "Forced")


def test_forced_and_full_refresh() -> None:
    assert reasons(make_plan(CHAIN, observed(BUILT), Options(force=True))) == dict.fromkeys(
        CHAIN.nodes, ("run", "Forced")
    )
    assert reasons(make_plan(CHAIN, observed(BUILT), Options(full_refresh=True)))["s.b"] == ("run", "Full refresh")
    assert reasons(make_plan(CHAIN, observed(BUILT), Options(force=True, full_refresh=True)))["s.b"][1] == "Forced"
    assert {n.run_type for n in make_plan(CHAIN, observed(BUILT), Options(force=True)).nodes} == {"full"}


def test_a_source_with_another_snapshot_runs_what_reads_it() -> None:
    seen = observed({**BUILT, Relation("raw", "x"): source(2)})
    assert decided(CHAIN, seen, "s.a") == ("run", "full", "Source changed", "raw.x moved from snapshot 1 to 2")
    assert decided(CHAIN, seen, "s.b") == ("run", "full", "Upstream changed", "s.a runs; if its output changes")
    by_name = {n.name: n for n in make_plan(CHAIN, seen).nodes}
    assert (by_name["s.a"].pending, by_name["s.b"].pending, by_name["s.c"].pending) == (False, True, True)


def test_a_source_that_was_only_compacted_has_not_changed() -> None:
    same = RelationState(version=replace(version(2), same_rows=(1,)))
    assert make_plan(CHAIN, observed({**BUILT, Relation("raw", "x"): same})).nothing_to_do


def test_another_column_in_a_source_is_a_change() -> None:
    seen = observed({**BUILT, Relation("raw", "x"): source(1, "id long, v int")})
    assert decided(CHAIN, seen, "s.a")[2:] == ("Schema changed", "raw.x has other columns")


def test_an_upstream_with_other_rows_than_were_read_is_a_certain_reason() -> None:
    seen = observed(changed(BUILT, "s.a", version=version(500, "other rows")))
    by_name = {n.name: n for n in make_plan(CHAIN, seen).nodes}
    assert (by_name["s.b"].action, by_name["s.b"].reason, by_name["s.b"].pending) == (
        "run",
        Reason.UPSTREAM_CHANGED,
        False,
    )
    assert by_name["s.b"].detail == "s.a moved from snapshot 100 to 500"
    assert (by_name["s.c"].action, by_name["s.c"].pending) == ("run", True)


def test_an_upstream_with_the_same_rows_in_another_snapshot_has_not_changed() -> None:
    seen = observed(changed(BUILT, "s.a", version=version(500, "rows of 100")))
    assert make_plan(CHAIN, seen).nothing_to_do


def test_a_source_outranks_an_upstream() -> None:
    both = node("s.d", "raw.x", "s.a")
    world = project(A, both, externals=("raw.x",))
    lake = built(world, RAW)
    seen = observed(
        {**changed(lake, "s.a", version=version(500, "other")), Relation("raw", "x"): source(2)}, known=("s.a",)
    )
    assert decided(world, seen, "s.d")[2:] == ("Source changed", "raw.x moved from snapshot 1 to 2 and 1 more")


def test_an_input_that_was_not_read_before_and_one_that_is_read_no_more() -> None:
    more = project(A, replace(B, upstream=("raw.x", "s.a")), externals=("raw.x",))
    assert decided(more, observed(BUILT), "s.b")[2:] == ("Upstream changed", "raw.x was not read before")
    less = project(A, replace(B, upstream=()), externals=("raw.x",))
    assert decided(less, observed(BUILT), "s.b")[2:] == ("Upstream changed", "s.a no longer exists")


def test_a_version_that_the_query_asks_for_is_what_moved_or_is_gone() -> None:
    sql = "SELECT id FROM raw.x VERSION AS OF 'audit'"
    slot = Reference(("raw", "x"), sql.index("raw"), sql.index(" VERSION"), is_pinned=True)
    world = project(replace(A, sql=sql, slots=(slot,), reads=("raw.x",)), externals=("raw.x",))
    audit = Relation("raw", "x VERSION AS OF 'audit'")
    lake = built(world, {**RAW, audit: source(1)})
    assert decided(world, observed(lake), "s.a")[0] == "skip"
    for state, detail in (
        ({audit: source(2)}, "raw.x VERSION AS OF 'audit' moved from snapshot 1 to 2"),
        ({}, "raw.x VERSION AS OF 'audit' no longer exists"),
    ):
        seen = observed({**{r: s for r, s in lake.items() if r != audit}, **state})
        assert decided(world, seen, "s.a")[2:] == ("Source changed", detail)


def test_an_external_view_cannot_be_versioned_so_its_readers_run() -> None:
    seen = Observed(BUILT, opaque=frozenset({"raw.x"}))
    action, _, reason, detail = decided(CHAIN, seen, "s.a")
    assert (action, reason) == ("run", "Source changed")
    assert detail == "raw.x is a view that sqb did not make: its rows cannot be versioned"


PRECEDENCE = [
    ("First run", {"missing"}),
    ("Relation missing", {"missing", "known", "query", "forced", "source"}),
    (
        "Query changed",
        {"query", "config", "function", "columns", "drifted", "forced", "full_refresh", "source", "upstream"},
    ),
    ("Config changed", {"config", "function", "columns", "drifted", "forced", "full_refresh", "source", "upstream"}),
    ("Function changed", {"function", "columns", "drifted", "forced", "full_refresh", "source", "upstream"}),
    ("Schema changed", {"columns", "drifted", "forced", "full_refresh", "source", "upstream"}),
    ("Changed outside sqb", {"drifted", "forced", "full_refresh", "source", "upstream"}),
    ("Forced", {"forced", "full_refresh", "source", "upstream"}),
    ("Full refresh", {"full_refresh", "source", "upstream"}),
    ("Source changed", {"source", "upstream"}),
    ("Upstream changed", {"upstream"}),
    ("Normal", set()),
]


@pytest.mark.parametrize(("reason", "facts"), PRECEDENCE)
def test_the_first_reason_that_holds_is_the_one_that_is_given(reason: str, facts: set[str]) -> None:
    reader = node("s.d", "raw.x", "s.a", functions={"net": "old"})
    lake = built(project(A, reader, externals=("raw.x",)), RAW)
    now = reader
    if "query" in facts:
        now = replace(now, query_hash="new", local_hash="new")
    if "config" in facts:
        now = replace(now, config_hash="new", local_hash="new")
    if "function" in facts:
        now = replace(now, functions={"net": "new"}, local_hash="new")
    if "drifted" in facts:
        lake = changed(lake, "s.d", drifted=True)
    if "source" in facts:
        lake[Relation("raw", "x")] = source(2)
    if "upstream" in facts:
        lake = changed(lake, "s.a", version=version(500, "other"))
    if "columns" in facts:
        lake = changed(lake, "s.a", version=version(500, "other", "id string"))
    if "missing" in facts:
        lake = without(lake, "s.d")
    seen = observed(lake, known=("s.d",) if "known" in facts else ())
    options = Options(force="forced" in facts, full_refresh="full_refresh" in facts)
    assert decided(project(A, now, externals=("raw.x",)), seen, "s.d", options)[2] == reason


def test_the_reasons_are_listed_in_their_order() -> None:
    order = [str(r) for r in Reason]
    given = [reason for reason, _ in PRECEDENCE]
    assert sorted(given, key=order.index) == given


# --- views --------------------------------------------------------------------------------------------------------

V = node("s.v", "s.a", kind="view")
W = node("s.w", "s.v", kind="view")
D = node("s.d", "s.w")
VIEWS = project(A, V, W, D, externals=("raw.x",))
SEEN = built(VIEWS, RAW)


def test_views_over_unchanged_tables_have_nothing_to_do() -> None:
    assert make_plan(VIEWS, observed(SEEN)).nothing_to_do


def test_new_rows_beneath_views_run_the_table_above_them_and_not_the_views() -> None:
    lake = changed(SEEN, "s.a", version=version(500, "other"))
    assert reasons(make_plan(VIEWS, observed(lake))) == {
        "s.a": ("skip", "Normal"),
        "s.v": ("skip", "Normal"),
        "s.w": ("skip", "Normal"),
        "s.d": ("run", "Upstream changed"),
    }


def test_other_columns_beneath_a_view_run_the_view() -> None:
    lake = changed(SEEN, "s.a", version=version(500, "other", "id long, v int"))
    texts = reasons(make_plan(VIEWS, observed(lake)))
    assert texts["s.v"] == ("run", "Schema changed") and texts["s.w"] == ("run", "Schema changed")


def test_a_table_that_runs_leaves_views_above_it_to_be_decided_then() -> None:
    lake = {**SEEN, Relation("raw", "x"): source(2)}
    by_name = {n.name: n for n in make_plan(VIEWS, observed(lake)).nodes}
    assert (by_name["s.v"].pending, by_name["s.v"].detail) == (True, "s.a runs; if its columns change")
    assert (by_name["s.d"].pending, by_name["s.d"].detail) == (True, "s.a runs; if its output changes")


def test_a_changed_view_runs_itself_and_the_tables_above_it() -> None:
    other = replace(V, query_hash="new", local_hash="new")
    texts = reasons(make_plan(project(A, other, W, D, externals=("raw.x",)), observed(SEEN)))
    assert texts == {
        "s.a": ("skip", "Normal"),
        "s.v": ("run", "Query changed"),
        "s.w": ("run", "Upstream changed"),
        "s.d": ("run", "Upstream changed"),
    }


def test_a_view_that_was_dropped_is_made_again_and_nothing_above_it_runs() -> None:
    texts = reasons(make_plan(VIEWS, observed(without(SEEN, "s.w"), known=("s.w",))))
    assert texts == {
        "s.a": ("skip", "Normal"),
        "s.v": ("skip", "Normal"),
        "s.w": ("run", "Relation missing"),
        "s.d": ("skip", "Normal"),
    }


def test_a_table_that_became_a_view_and_back() -> None:
    as_view = project(A, node("s.b", "s.a", kind="view", config="view"), externals=("raw.x",))
    as_table = project(A, node("s.b", "s.a", config="table"), externals=("raw.x",))
    assert decided(as_view, observed(built(as_table, RAW)), "s.b")[2] == "Config changed"
    assert decided(as_table, observed(built(as_view, RAW)), "s.b")[2] == "Config changed"


def test_a_string_that_looks_like_a_substitution_is_named() -> None:
    there, not_there = replace(node("s.t"), sql="SELECT '${env:HOME}' AS h"), replace(node("s.u"), sql="SELECT `${x}`")
    by_name = {n.name: n.notices for n in make_plan(project(there, not_there), observed({})).nodes}
    assert by_name["s.u"] == () and "a string holds ${…}, which is text" in by_name["s.t"][0]


def test_only_models_that_store_rows_have_a_refresh_class_and_notices() -> None:
    table = node("s.t", volatile=("current_date", "rand"))
    view = node("s.v", kind="view", volatile=("rand",))
    seed = node("seeds.x", kind="seed")
    by_name = {n.name: n for n in make_plan(project(table, view, seed), observed({})).nodes}
    assert by_name["s.v"].incremental is None and by_name["seeds.x"].incremental is None
    assert by_name["s.t"].incremental is not None and set(by_name["s.t"].incremental) == {"class", "why"}
    assert by_name["s.v"].notices == () and "current_date(), rand()" in by_name["s.t"].notices[0]


def test_what_is_volatile_in_views_and_expressions_is_as_of_the_last_run_of_those_who_read_it() -> None:
    view = node("s.v", "raw.x", kind="view", volatile=("'today'",))
    between = node("s.w", "s.v", kind="view")
    table, below = node("s.t", "s.w", "raw.e"), node("s.u", "s.t")
    expression = SourceQuery("SELECT rand()", (), ("raw.x",), "h", volatile=True)
    source_ = DeclaredSource("raw.e", Relation("raw", "e"), At("sources/raw.yml"), expression=expression)
    world = project(view, between, table, below, externals=("raw.x", "raw.e"))
    by_name = {n.name: n.notices for n in make_plan(replace(world, sources={"raw.e": source_}), observed(RAW)).nodes}
    assert by_name["s.v"] == by_name["s.w"] == by_name["s.u"] == ()
    assert by_name["s.t"] == (
        "reads raw.e, whose expression may give other rows at another time and the view s.v, which uses 'today': "
        "its rows are as of its last run, and time alone does not make it run again",
    )
    often = replace(table, settings={"run_despite_unchanged": "24h"})
    assert {n.name: n for n in make_plan(project(view, between, often), observed(RAW)).nodes}["s.t"].notices == ()


def test_a_query_that_was_not_read_is_opaque_and_says_so() -> None:
    unread = replace(node("s.u", volatile=("rand",)), unread="models/s/u.sql:1:8: pipe syntax")
    value = make_plan(project(unread, replace(unread, name="s.w", kind="view")), Observed()).nodes
    assert value[0].incremental == {
        "class": "opaque",
        "why": "the query could not be analysed (models/s/u.sql:1:8: pipe syntax)",
    }
    message = (
        "models/s/u.sql:1:8: pipe syntax: the query could not be analysed here; it is left to Spark as it is written"
    )
    assert value[0].notices[0] == message and len(value[0].notices) == 2
    assert value[1].notices == (message,)


def test_post_hooks_that_did_not_run_to_their_end_are_a_reason_to_run() -> None:
    hooked = replace(B, hooks=(Hook("post", "SELECT 1", (), (), "SELECT 1", At("models/s/b.sql", 1, 1), ()),))
    world, relation = project(A, hooked, C, externals=("raw.x",)), B.relation
    due = replace(BUILT[relation], identity=replace(BUILT[relation].identity, post_hooks="due", run_id="r2"))
    missing = {**BUILT, relation: due}
    wanted = ("run", "full", "Post-hooks missing", "run r2 ended before its post-hooks had")
    assert decided(world, observed(missing), "s.b") == wanted
    assert decided(CHAIN, observed(missing), "s.b")[0] == "skip"
    earlier = {**missing, relation: replace(due, properties={"sqb.post_hooks_done": "r1"})}
    assert decided(world, observed(earlier), "s.b") == wanted
    done = {**missing, relation: replace(due, properties={"sqb.post_hooks_done": "r2"})}
    assert decided(world, observed(done), "s.b")[0] == "skip"
    # Whether something above turns out identical does not matter then.
    above = project(replace(A, query_hash="new", local_hash="new"), hooked, C, externals=("raw.x",))
    assert decided(above, observed(missing), "s.b") == wanted
    assert not {n.name: n for n in make_plan(above, observed(missing)).nodes}["s.b"].pending


# --- selection ----------------------------------------------------------------------------------------------------


def test_only_what_is_selected_is_planned() -> None:
    plan = make_plan(CHAIN, observed(BUILT), Options(frozenset({"s.b"}), force=True))
    assert reasons(plan) == {"s.b": ("run", "Forced")}


def test_reading_what_is_out_of_date_and_not_selected_is_warned_about() -> None:
    other = replace(A, query_hash="new", local_hash="new")
    world = project(other, B, C, externals=("raw.x",))
    plan = make_plan(world, observed(BUILT), Options(frozenset({"s.b", "s.c"})))
    assert plan.warnings == ("s.b reads s.a, which is out of date and not selected: s.a: Query changed",)
    assert plan.nothing_to_do


def test_what_is_out_of_date_further_up_is_warned_about_too() -> None:
    other = replace(A, query_hash="new", local_hash="new")
    world = project(other, B, C, externals=("raw.x",))
    plan = make_plan(world, observed(BUILT), Options(frozenset({"s.c"})))
    assert plan.warnings == ("s.c reads s.b, which is out of date and not selected: s.a: Query changed",)


def test_what_will_be_out_of_date_when_this_plan_has_run_is_warned_about() -> None:
    other = replace(A, query_hash="new", local_hash="new")
    world = project(other, B, C, externals=("raw.x",))
    plan = make_plan(world, observed(BUILT), Options(frozenset({"s.a", "s.c"})))
    assert reasons(plan) == {"s.a": ("run", "Query changed"), "s.c": ("skip", "Normal")}
    assert plan.warnings == ("s.c reads s.b, which is out of date and not selected: s.a runs",)


@pytest.mark.parametrize("options", [Options(force=True), Options(full_refresh=True)])
def test_forcing_what_is_selected_forces_nothing_else(options: Options) -> None:
    plan = make_plan(CHAIN, observed(BUILT), replace(options, selected=frozenset({"s.b"})))
    reason = "Forced" if options.force else "Full refresh"
    assert reasons(plan) == {"s.b": ("run", reason)} and plan.warnings == ()
    both = make_plan(CHAIN, observed(BUILT), replace(options, selected=frozenset({"s.a", "s.c"})))
    assert both.warnings == ("s.c reads s.b, which is out of date and not selected: s.a runs",)


def test_forcing_does_not_hide_what_is_out_of_date_above() -> None:
    seen = observed({**BUILT, Relation("raw", "x"): source(2)})
    plan = make_plan(CHAIN, seen, Options(frozenset({"s.c"}), force=True))
    assert reasons(plan) == {"s.c": ("run", "Forced")}
    assert plan.warnings == ("s.c reads s.b, which is out of date and not selected: s.a: Source changed",)


def test_a_blocked_node_is_not_warned_about_too() -> None:
    other = replace(A, query_hash="new", local_hash="new")
    seen = observed({**BUILT, B.relation: source(9)})
    plan = make_plan(project(other, B, C, externals=("raw.x",)), seen, Options(frozenset({"s.b"})))
    assert plan.nodes[0].action == "blocked" and plan.warnings == ()


def test_what_only_checks_read_is_warned_about() -> None:
    other = replace(A, query_hash="new", local_hash="new")
    watching = replace(node("s.d"), watches=("s.a",))
    lake = built(project(A, watching, externals=("raw.x",)), RAW)
    plan = make_plan(project(other, watching, externals=("raw.x",)), observed(lake), Options(frozenset({"s.d"})))
    assert plan.warnings == ("s.d reads s.a, which is out of date and not selected: s.a: Query changed",)


def test_drift_that_is_left_alone_does_not_make_a_node_out_of_date() -> None:
    tolerant = replace(A, settings={"on_drift": "warn"})
    lake = changed(built(project(tolerant, B, externals=("raw.x",)), RAW), "s.a", drifted=True)
    plan = make_plan(project(tolerant, B, externals=("raw.x",)), observed(lake), Options(frozenset({"s.b"})))
    assert plan.warnings == ()


def test_an_upstream_that_was_never_built_and_is_not_selected_blocks() -> None:
    plan = make_plan(CHAIN, observed(without(BUILT, "s.a", "s.b", "s.c")), Options(frozenset({"s.b", "s.c"})))
    assert reasons(plan) == {"s.b": ("blocked", "Upstream missing"), "s.c": ("blocked", "Upstream blocked")}
    assert [n.detail for n in plan.nodes] == ["s.a is not built and not selected", "s.b is blocked"]


def test_a_plan_of_everything_that_is_selected_has_no_warnings() -> None:
    other = replace(A, query_hash="new", local_hash="new")
    world = project(other, B, C, externals=("raw.x",))
    assert make_plan(world, observed(BUILT)).warnings == ()


# --- values -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [Options(), Options(frozenset({"s.c", "s.b"}), True, False), Options(frozenset(), False, True)],
)
def test_a_plan_survives_json(options: Options) -> None:
    other = replace(A, query_hash="new", local_hash="new", volatile=("rand",))
    world = project(other, B, C, externals=("raw.x",))
    plan = make_plan(world, observed(without(BUILT, "s.c")), options)
    assert Plan.from_json(plan.to_json()) == plan


def test_damaged_sources_in_a_commit_are_as_good_as_none() -> None:
    for text in ("not json", "[]", "null", "7"):
        lake = changed(BUILT, "s.b", identity=replace(BUILT[B.relation].identity, sources=text))
        assert decided(CHAIN, observed(lake), "s.b")[2] == "Upstream changed"


def test_a_node_that_was_built_from_what_stands_now_is_up_to_date() -> None:
    lake = {**BUILT, Relation("raw", "x"): source(2)}
    for snapshot, one in enumerate((A, B, C), start=700):
        lake[one.relation] = built_node(one, CHAIN, lake, snapshot)
    assert make_plan(CHAIN, observed(lake)).nothing_to_do
