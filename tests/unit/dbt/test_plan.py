"""Every condition under which dbt has to run something, and how that spreads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sqb.dbt.fingerprints import decode_nodes, renew_fingerprint
from sqb.dbt.model import DbtObserved, DbtOptions, DbtPlan, DbtRelationState, DbtVersion
from sqb.dbt.plan import plan_dbt
from sqb.names import Relation
from unit.dbt.small_project import ORDERS, SHOP, built, edited, full, node, project, rows, seen


def _reasons(plan: DbtPlan, action: str = "run") -> dict[str, str]:
    """Why nodes run, by their short ids; those of reason `upstream_changed` too."""
    return {n.unique_id.replace(".shop.", ".", 1): n.reason for n in plan.nodes if n.action == action}


def _without(observed: DbtObserved, short: str) -> DbtObserved:
    return replace(observed, stored={i: s for i, s in observed.stored.items() if i != full(short)})


def _seeing(observed: DbtObserved, short: str, result: DbtRelationState) -> DbtObserved:
    return replace(observed, states={**observed.states, full(short): result})


ALL = {
    "seed.people": "first run",
    "model.stg": "first run",
    "model.totals": "first run",
    "model.log": "first run",
    "snapshot.snap": "first run",
    "model.report": "first run",
    "test.totals_unique": "first run",
    "test.no_negative": "first run",
    "test.orders_not_null": "first run",
    "unit_test.totals_sums": "first run",
}
BELOW_TOTALS = {
    "model.report": "upstream_changed",
    "test.totals_unique": "upstream_changed",
    "test.no_negative": "upstream_changed",
    "unit_test.totals_sums": "upstream_changed",
}
BELOW_LOG = {"snapshot.snap": "upstream_changed", "test.no_negative": "upstream_changed"}
BELOW_STG = {
    **BELOW_TOTALS,
    **BELOW_LOG,
    "model.totals": "upstream_changed",
    "model.log": "upstream_changed",
}


def test_nothing_was_built_yet() -> None:
    plan = plan_dbt(project(), DbtObserved(states=seen(project())))
    assert _reasons(plan) == ALL
    assert [n.unique_id for n in plan.nodes] == [n.unique_id for n in SHOP if not n.is_ephemeral]


def test_nothing_changed() -> None:
    plan = plan_dbt(project(), built())
    assert (plan.runs, plan.full_refresh, plan.uncertain, plan.notices) == ((), False, (), ())
    assert set(_reasons(plan, "skip").values()) == {"no change"}
    # Models and what is not a model are told apart, as the plan shows them.
    assert (len(plan.models), len(plan.others)) == (4, 6)


def test_a_relation_is_missing() -> None:
    plan = plan_dbt(project(), _seeing(built(), "model.totals", DbtRelationState(False)))
    assert _reasons(plan) == {"model.totals": "relation missing", **BELOW_TOTALS}
    assert plan.nodes[2].detail == "analytics.totals is not there"


def test_a_definition_changed() -> None:
    plan = plan_dbt(edited("model.totals", "code", "config"), built())
    assert _reasons(plan) == {"model.totals": "checksum changed", **BELOW_TOTALS}
    assert plan.nodes[2].detail == "its code, its configuration"


def test_a_definition_changed_of_what_is_missing_too() -> None:
    plan = plan_dbt(edited("model.totals", "code"), _seeing(built(), "model.totals", DbtRelationState(False)))
    assert _reasons(plan)["model.totals"] == "relation missing"


def test_what_has_no_fingerprint_runs_for_the_first_time_whatever_stands() -> None:
    assert _reasons(plan_dbt(project(), _without(built(), "model.report"))) == {"model.report": "first run"}


def test_a_full_refresh_runs_models_and_seeds_and_what_looks_at_them() -> None:
    plan = plan_dbt(project(), built(), DbtOptions(full_refresh=True))
    assert plan.full_refresh
    models = {f"model.{m}": "full refresh" for m in ("stg", "totals", "log", "report")}
    assert _reasons(plan) == {**BELOW_TOTALS, **BELOW_LOG, **models, "seed.people": "full refresh"}


def test_a_changed_definition_comes_before_a_full_refresh() -> None:
    plan = plan_dbt(edited("model.totals", "config"), built(), DbtOptions(full_refresh=True))
    assert _reasons(plan)["model.totals"] == "checksum changed"


def test_a_source_has_new_data() -> None:
    news = DbtRelationState(True, version=DbtVersion("snapshot", "2"), age=60.0)
    plan = plan_dbt(project(), _seeing(built(), ORDERS, news))
    assert _reasons(plan) == {
        **BELOW_STG,
        "model.stg": "source_freshness_changed",
        "test.orders_not_null": "source_freshness_changed",
    }
    assert plan.nodes[1].detail == "raw.orders has new data"


def test_a_compacted_source_has_no_new_data() -> None:
    compacted = DbtRelationState(True, version=DbtVersion("snapshot", "1", ("2", "1")), age=60.0)
    assert plan_dbt(project(), _seeing(built(), ORDERS, compacted)).runs == ()


def test_equal_content_is_no_new_data() -> None:
    first = _seeing(built(), ORDERS, DbtRelationState(True, version=DbtVersion("snapshot", "1", content="c")))
    world = replace(first, stored=decode_nodes(project(), rows(project(), first)))
    again = DbtRelationState(True, version=DbtVersion("snapshot", "2", content="c"))
    assert plan_dbt(project(), _seeing(world, ORDERS, again)).runs == ()


@pytest.mark.parametrize(("now", "runs"), [("2026-01-01", False), ("2026-01-02", True)])
def test_a_source_with_a_column_is_as_new_as_that_says(now: str, runs: bool) -> None:
    first = _seeing(built(), ORDERS, DbtRelationState(True, version=DbtVersion("value", "2026-01-01")))
    world = replace(first, stored=decode_nodes(project(), rows(project(), first)))
    plan = plan_dbt(project(), _seeing(world, ORDERS, DbtRelationState(True, version=DbtVersion("value", now))))
    assert bool(plan.runs) == runs
    assert not runs or plan.nodes[1].detail == "raw.orders has data up to 2026-01-02"


def test_a_source_that_is_too_old_blocks_everything_below() -> None:
    old = DbtRelationState(True, version=DbtVersion("snapshot", "1"), age=8000.0)
    plan = plan_dbt(edited("model.report", "code"), _seeing(built(), ORDERS, old))
    below = [n for n in ALL if n != "seed.people"]
    assert _reasons(plan, "blocked") == dict.fromkeys(below, "source_freshness_error")
    assert plan.runs == ()
    assert plan.nodes[1].detail == "raw.orders is 2 hours old, error_after is 2 hours"


def test_a_source_that_gets_old_is_told() -> None:
    old = DbtRelationState(True, version=DbtVersion("snapshot", "1"), age=4000.0)
    plan = plan_dbt(project(), _seeing(built(), ORDERS, old))
    assert (plan.runs, plan.notices) == ((), ("the source raw.orders is 1 hour old, warn_after is 1 hour",))


def test_an_ephemeral_model_is_not_run_and_hands_on_what_is_above() -> None:
    plan = plan_dbt(edited("model.stg", "config"), built())
    assert _reasons(plan) == {"model.stg": "checksum changed", **BELOW_STG}
    assert plan.nodes[2].detail == "model.shop.stg runs"


def test_a_changed_seed() -> None:
    plan = plan_dbt(edited("seed.people", "code"), built())
    assert _reasons(plan) == {"seed.people": "checksum changed", "model.totals": "upstream_changed", **BELOW_TOTALS}


def test_a_snapshot_runs_when_what_it_reads_changed() -> None:
    plan = plan_dbt(edited("model.log", "code"), built())
    assert _reasons(plan) == {"model.log": "checksum changed", **BELOW_LOG}


def test_a_changed_test_runs_alone() -> None:
    assert _reasons(plan_dbt(edited("test.totals_unique", "config"), built())) == {
        "test.totals_unique": "checksum changed"
    }


def test_a_test_that_has_not_passed_runs_again() -> None:
    plan = plan_dbt(project(), _without(built(), "test.totals_unique"))
    assert _reasons(plan) == {"test.totals_unique": "first run"}
    assert [n.detail for n in plan.filter_nodes("run")] == ["it has not passed yet"]


def test_only_what_is_selected_runs() -> None:
    options = DbtOptions(selected=(full("model.report"), full("model.log")))
    plan = plan_dbt(edited("model.totals", "config"), built(), options)
    assert [(n.unique_id, n.action) for n in plan.nodes] == [
        (full("model.log"), "skip"),
        (full("model.report"), "skip"),
    ]


def test_what_is_seen_through_an_unselected_view_counts() -> None:
    news = DbtRelationState(True, version=DbtVersion("snapshot", "2"))
    options = DbtOptions(selected=(full("model.log"),))
    plan = plan_dbt(project(), _seeing(built(), ORDERS, news), options)
    assert [(n.unique_id, n.reason) for n in plan.nodes] == [(full("model.log"), "upstream_changed")]
    assert plan.nodes[0].detail == "model.shop.stg changed since"


def test_what_was_built_since_without_its_readers_is_found_later() -> None:
    later = DbtRelationState(True, version=DbtVersion("snapshot", "2"))
    assert _reasons(plan_dbt(project(), _seeing(built(), "model.totals", later))) == {
        "model.report": "upstream_changed",
        "test.totals_unique": "upstream_changed",
        "test.no_negative": "upstream_changed",
    }


def test_a_run_is_of_models_alone() -> None:
    plan = plan_dbt(edited("seed.people", "code"), _without(built(), "model.log"), DbtOptions(command="run"))
    assert [(n.unique_id, n.action) for n in plan.nodes] == [
        (full("model.stg"), "skip"),
        (full("model.totals"), "skip"),
        (full("model.log"), "run"),
        (full("model.report"), "skip"),
    ]


def test_a_changed_model_is_replayed_in_full_where_that_is_asked_for() -> None:
    full_replay = DbtOptions(replay_on_change="full")
    assert plan_dbt(edited("model.log", "code"), built(), full_replay).full_refresh
    assert not plan_dbt(edited("model.log", "code"), built()).full_refresh
    # New data alone is no reason to begin anew, nor is a model that has never been there.
    assert not plan_dbt(project(), _without(built(), "model.log"), full_replay).full_refresh
    assert not plan_dbt(edited("seed.people", "code"), built(), full_replay).full_refresh


# --- what only the compiled SQL tells ---------------------------------------------------------------------------------


def test_a_macro_that_changed_may_compile_to_the_same() -> None:
    project_now = edited("model.totals", "macros")
    plan = plan_dbt(project_now, built())
    assert plan.uncertain == (full("model.totals"),)
    assert _reasons(plan)["model.totals"] == "checksum changed"
    same = plan_dbt(project_now, replace(built(), same_compiled=frozenset({full("model.totals")})))
    assert _reasons(same) == {"unit_test.totals_sums": "upstream_changed"}
    assert same.nodes[2].detail == "compiles to the same SQL"


@pytest.mark.parametrize("part", ["config", "runtime"])
def test_what_the_sql_does_not_tell_is_a_change(part: str) -> None:
    assert plan_dbt(edited("model.totals", part, "macros"), built()).uncertain == ()


def test_an_incremental_model_is_not_told_by_its_sql() -> None:
    assert plan_dbt(edited("model.log", "macros"), built()).uncertain == ()


def test_what_runs_anyway_is_not_compiled() -> None:
    news = _seeing(built(), ORDERS, DbtRelationState(True, version=DbtVersion("snapshot", "2")))
    assert plan_dbt(edited("model.totals", "macros"), news).uncertain == ()
    assert plan_dbt(edited("model.totals", "macros"), built(), DbtOptions(full_refresh=True)).uncertain == ()


def test_two_that_may_be_the_same_are_compiled_together() -> None:
    totals = edited("model.totals", "macros").nodes[full("model.totals")]
    report = edited("model.report", "macros").nodes[full("model.report")]
    changed = {n.unique_id: n for n in (totals, report)}
    both = project(changed.get(n.unique_id, n) for n in SHOP)
    assert plan_dbt(both, built()).uncertain == (full("model.totals"), full("model.report"))


def test_a_view_that_proved_to_be_the_same_stays_so_for_its_readers() -> None:
    project_now, world = edited("model.stg", "macros"), built()
    stg = full("model.stg")
    proven = replace(world, same_compiled=frozenset({stg}))
    assert plan_dbt(project_now, proven).runs == ()
    row = renew_fingerprint(project_now.nodes[stg], world.stored[stg], "run 2", rows(project(), world)[0].ts)
    stored = {**world.stored, **decode_nodes(project_now, [row])}
    assert plan_dbt(project_now, replace(world, stored=stored)).runs == ()


# --- what cannot be seen ----------------------------------------------------------------------------------------------


def test_what_was_never_in_the_catalog_is_trusted_to_be_there() -> None:
    unseen = _seeing(DbtObserved(states=seen(project())), "model.totals", DbtRelationState(False))
    stored = decode_nodes(project(), rows(project(), unseen))
    stored[full("model.totals")] = replace(stored[full("model.totals")], in_catalog=False)
    plan = plan_dbt(project(), replace(unseen, stored=stored))
    assert plan.runs == ()
    assert plan.notices == (
        "missing tables cannot be detected where dbt makes them outside of the catalog: analytics.totals",
    )
    # A later run of it alone is found by its readers.
    stored[full("model.totals")] = replace(stored[full("model.totals")], run_id="run 2")
    assert "model.report" in _reasons(plan_dbt(project(), replace(unseen, stored=stored)))


def test_a_source_outside_of_the_catalog_has_no_version() -> None:
    first = _seeing(built(), ORDERS, DbtRelationState(False))
    world = replace(first, stored=decode_nodes(project(), rows(project(), first)))
    plan = plan_dbt(project(), world)
    assert plan.runs == ()
    assert plan.notices == ("new data cannot be detected in sources that are not tables of the catalog: raw.orders",)


def test_a_source_that_left_the_catalog_is_for_dbt_to_find() -> None:
    plan = plan_dbt(project(), _seeing(built(), ORDERS, DbtRelationState(False)))
    assert plan.nodes[1].detail == "raw.orders is no longer in the catalog"
    assert _reasons(plan)["model.stg"] == "source_freshness_changed"


def test_a_model_of_another_name_is_built_under_it() -> None:
    plan = plan_dbt(edited("model.report", relation=Relation("analytics", "other")), built())
    assert [(n.reason, n.detail) for n in plan.filter_nodes("run")] == [
        ("checksum changed", "it was built as analytics.report")
    ]


# --- across the border ------------------------------------------------------------------------------------------------


def test_a_source_that_sqb_is_about_to_build() -> None:
    plan = plan_dbt(project(), replace(built(), pending={ORDERS: "marts.orders runs"}))
    assert (plan.nodes[1].reason, plan.nodes[1].detail) == ("source_freshness_changed", "marts.orders runs")
    # It may not be there yet, and then there is nothing to say of it.
    gone = replace(_seeing(built(), ORDERS, DbtRelationState(False)), pending={ORDERS: "marts.orders runs"})
    assert plan_dbt(project(), gone).notices == ()


def test_a_source_that_sqb_cannot_build() -> None:
    plan = plan_dbt(project(), replace(built(), blocked={ORDERS: "marts.orders is blocked"}))
    assert (plan.nodes[1].action, plan.nodes[1].detail) == ("blocked", "marts.orders is blocked")
    assert plan.nodes[0].action == "skip"


def test_a_project_without_anything() -> None:
    assert plan_dbt(project(()), DbtObserved()).nodes == ()
    assert plan_dbt(project((node("model.one"),)), DbtObserved()).runs == ("model.shop.one",)
