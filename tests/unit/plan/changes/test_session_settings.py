"""Settings of Spark's sessions are part of what a table is: another one is a reason, with its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from sqb.compile.model import Node, OtherTarget, Project
from sqb.names import Relation
from sqb.plan.changes.session_settings import (
    build_unrecorded_notice,
    encode_settings,
    list_changed_settings,
    parse_settings,
)
from sqb.plan.decide import make_plan
from sqb.plan.observed import RelationState
from sqb.plan.recorded.commit_identity import CommitIdentity
from sqb.project.config.connections.model import Connection, SparkSettings
from sqb.project.config.session_settings import RESULT_SETTINGS, compute_session_settings, list_non_default
from unit.plan.worlds import built, node, observed, project, source

ZONE = "spark.sql.session.timeZone"
LEGACY = "spark.sql.legacy.timeParserPolicy"
RAW = {Relation("raw", "x"): source(1)}


def session(**conf: str) -> dict[str, str]:
    return compute_session_settings(
        Connection(spark=SparkSettings(conf={f"spark.sql.{k}": v for k, v in conf.items()}))
    )


def world(settings: Mapping[str, str], *nodes: Node) -> Project:
    return replace(project(*(nodes or (node("s.a", "raw.x"),)), externals=("raw.x",)), session=settings)


def under(one: Project, now: Mapping[str, str]) -> tuple[Project, dict[Relation, RelationState]]:
    """A project that was built, with the settings that it has now."""
    relations = {
        r: replace(
            s, identity=replace(s.identity, settings=encode_settings(next(n for n in one if n.relation == r), one))
        )
        if s.identity
        else s
        for r, s in built(one, RAW).items()
    }
    return replace(one, session=now), relations


def test_another_setting_is_a_changed_config_that_names_it() -> None:
    berlin = {**session(), ZONE: "Europe/Berlin"}
    for then, now, words in (
        (session(), berlin, f"{ZONE} UTC → Europe/Berlin"),
        (berlin, session(), f"{ZONE} Europe/Berlin → UTC"),
        (session(), {**session(), LEGACY: "LEGACY"}, f"{LEGACY} Spark's default → LEGACY"),
        ({**session(), LEGACY: "LEGACY"}, session(), f"{LEGACY} LEGACY → Spark's default"),
    ):
        one, relations = under(world(then), now)
        planned = make_plan(one, observed(relations)).nodes[0]
        assert (planned.run_type, str(planned.reason), planned.detail) == ("backfill", "Config changed", words)


def test_the_same_settings_are_none() -> None:
    one, relations = under(world(session()), session())
    assert make_plan(one, observed(relations)).nothing_to_do


def test_a_commit_that_does_not_record_them_counts_as_equal_and_is_told_of() -> None:
    one = world({**session(), ZONE: "Asia/Tokyo"})
    relations = built(one, RAW)
    plan = make_plan(one, observed(relations))
    assert plan.nothing_to_do and not plan.warnings
    assert build_unrecorded_notice(one, one, observed(relations)) == (
        "s.a does not record the session settings that they were built under: they count as built under today's"
    )
    assert build_unrecorded_notice(one, one, observed(under(one, one.session)[1])) is None


@pytest.mark.parametrize("kind", ["append", "scd2", "incremental"])
def test_a_history_goes_on_and_the_plan_warns(kind: str) -> None:
    more = {"cursor": "id", "cursor_type": "integer"} if kind == "incremental" else {}
    one, relations = under(world(session(), node("s.a", "raw.x", kind=kind, **more)), {**session(), ZONE: "Asia/Tokyo"})
    plan = make_plan(one, observed(relations))
    assert plan.nothing_to_do
    assert plan.warnings == (
        f"s.a: {ZONE} UTC → Asia/Tokyo since its last rows were made; {kind} goes on, so that its table holds rows of"
        " both (--full-refresh rebuilds it)",
    )


def test_rows_that_are_kept_stay_under_the_settings_of_before_and_the_plan_warns() -> None:
    then, now = session(), {**session(), ZONE: "Asia/Tokyo"}
    one, relations = under(world(then, node("s.a", "raw.x", kind="merge", on_source_delete="keep")), now)
    plan = make_plan(one, observed(relations))
    assert str(plan.nodes[0].reason) == "Config changed"
    assert plan.warnings == (
        f"s.a: {ZONE} UTC → Asia/Tokyo since its last rows were made; rows that have left its result stay as they were"
        " made (on_source_delete: keep; --full-refresh drops them)",
    )
    one, relations = under(world(then, node("s.a", "raw.x", kind="merge")), now)
    assert make_plan(one, observed(relations)).warnings == ()


def test_a_seed_has_no_session() -> None:
    one, relations = under(world(session(), node("seeds.a", kind="seed")), {**session(), ZONE: "Asia/Tokyo"})
    assert not relations[Relation("seeds", "a")].identity.settings
    assert make_plan(one, observed(relations)).nothing_to_do


def test_a_table_made_under_other_settings_is_not_taken_over() -> None:
    there, relations = under(world(session(), node("s.a", "raw.x")), {**session(), ZONE: "Asia/Tokyo"})
    other = Relation("prod", "a")
    moved = {other if r == Relation("s", "a") else r: s for r, s in relations.items()}
    here = replace(there, other_target=OtherTarget("prod", "clone", {"s.a": other}))
    planned = make_plan(here, observed(moved)).nodes[0]
    assert planned.reuse is None
    assert planned.detail == f"not reused: prod.a was built under other settings: {ZONE} UTC → Asia/Tokyo"
    same = replace(here, session=session())
    assert make_plan(same, observed(moved)).nodes[0].reuse is not None


def test_one_meaning_has_one_spelling() -> None:
    written = {"ansi.enabled": "TRUE", "storeAssignmentPolicy": "legacy", "shuffle.partitions": "7"}
    assert list_non_default(session(**written)) == {"spark.sql.storeAssignmentPolicy": "LEGACY"}
    assert "spark.sql.shuffle.partitions" not in session(**written)


def test_the_record_is_short_and_read_back_whole() -> None:
    one = world({**session(), ZONE: "Asia/Tokyo"})
    recorded = encode_settings(one.nodes["s.a"], one)
    assert recorded == f'{{"list":"1","{ZONE}":"Asia/Tokyo"}}'
    assert parse_settings(CommitIdentity(settings=recorded)) == one.session
    assert parse_settings(CommitIdentity()) is None and parse_settings(CommitIdentity(settings="x")) is None


def test_a_setting_that_only_one_list_has_counts_as_equal() -> None:
    before = {k: v for k, v in RESULT_SETTINGS.items() if k != "spark.sql.ansi.enabled"}
    assert list_changed_settings(before, {**RESULT_SETTINGS, "spark.sql.ansi.enabled": "false"}) == []


def test_the_list_is_documented() -> None:
    from pathlib import Path

    text = (Path(__file__).parents[4] / "docs" / "configuration.md").read_text()
    assert [key for key in RESULT_SETTINGS if f"`{key}`" not in text] == []
