"""What a lake tells of a dbt project without Java: what stands, at which versions, and how old sources are."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from contract.lakes import SqliteProbe, state
from sqb.dbt.fingerprints import build_fingerprint
from sqb.dbt.model import DbtProject, DbtRelationState, DbtSource, DbtVersion
from sqb.dbt.observe import observe_dbt
from sqb.errors.lake import NewerState
from sqb.lake.port import Column, Shape
from sqb.lake.state.rows import FINGERPRINTS
from sqb.names import Relation
from unit.dbt.small_project import NOW, ORDERS, node, project

RAW = Relation("raw", "orders")
ROWS = Shape((Column("id", "long"), Column("loaded_at", "timestamp")))
HOUR = 3600.0


@pytest.fixture
def probe(tmp_path: Path) -> SqliteProbe:
    return SqliteProbe(tmp_path)


def _fill(probe: SqliteProbe, relation: Relation, *times: datetime) -> None:
    """A table as others than sqb make it."""
    probe.lake.ensure_schemas([relation.schema])
    stage = probe.lake.stage(relation, ROWS, None, "r1")
    probe.lake.fill(stage, [list(range(len(times))), list(times)])
    probe.lake.publish(stage, {})


def _reading(probe: SqliteProbe, dbt: DbtProject, **source: Any) -> DbtRelationState:
    declared = replace(DbtSource(ORDERS, "raw.orders", RAW), **source)
    return observe_dbt(replace(dbt, sources={ORDERS: declared}), probe.lake).states[ORDERS]


def test_nothing_is_there(probe: SqliteProbe) -> None:
    observed = observe_dbt(project(), probe.lake)
    assert observed.stored == {}
    assert set(observed.states.values()) == {DbtRelationState(False)}
    # Tests and ephemeral models have no relation to look for.
    assert "test.shop.totals_unique" not in observed.states and "model.shop.eph" not in observed.states


def test_tables_have_versions_that_outlive_a_compaction(probe: SqliteProbe) -> None:
    totals = Relation("analytics", "totals")
    _fill(probe, totals, datetime(2024, 1, 1, tzinfo=UTC))
    first = state(probe, totals)
    seen = observe_dbt(project(), probe.lake).states["model.shop.totals"]
    assert seen == DbtRelationState(
        True, version=DbtVersion("snapshot", str(first.snapshot_id), (str(first.snapshot_id),))
    )
    probe.lake.touch(totals, first.base, {})
    again = observe_dbt(project(), probe.lake).states["model.shop.totals"]
    assert again.version is not None and seen.version is not None
    assert again.version.is_same(seen.version.to_record()) and len(again.version.same) == 2


def test_names_have_no_case(probe: SqliteProbe) -> None:
    _fill(probe, Relation("analytics", "Totals"), datetime(2024, 1, 1, tzinfo=UTC))
    there = replace(node("model.totals"), relation=Relation("ANALYTICS", "totals"))
    assert observe_dbt(project((there,)), probe.lake).states["model.shop.totals"].exists


def test_a_known_content_belongs_to_the_rows_that_it_was_taken_of(probe: SqliteProbe) -> None:
    totals = node("model.totals")
    assert totals.relation is not None
    _fill(probe, totals.relation, datetime(2024, 1, 1, tzinfo=UTC))
    now = str(state(probe, totals.relation).snapshot_id)
    for snapshot, content in ((now, "rows"), ("17", None)):
        row = build_fingerprint(totals, {}, "run 1", NOW, snapshot=snapshot, content="rows")
        probe.lake.state.append_fingerprints([replace(row, ts=datetime.now(UTC))])
        observed = observe_dbt(project((totals,)), probe.lake)
        version = observed.states["model.shop.totals"].version
        assert version is not None and version.content == content
        assert observed.stored["model.shop.totals"].snapshot == snapshot


def test_sources_are_as_old_as_their_newest_rows(probe: SqliteProbe) -> None:
    _fill(probe, RAW, datetime.now(UTC) - timedelta(hours=5), datetime.now(UTC) - timedelta(hours=3))
    by_column = _reading(probe, project(()), loaded_at_field="loaded_at", error_after=HOUR)
    assert by_column.age is not None and by_column.age == pytest.approx(3 * HOUR, abs=60)
    assert by_column.version is not None and by_column.version.kind == "value"
    # Without a column, the commit tells.
    by_commit = _reading(probe, project(()), error_after=HOUR)
    assert by_commit.age is not None and by_commit.age < 60
    assert by_commit.version is not None and by_commit.version.kind == "snapshot"
    # Without a limit nobody asks for values.
    unlimited = _reading(probe, project(()), loaded_at_field="loaded_at")
    assert unlimited.version is not None and (unlimited.version.kind, unlimited.age) == ("snapshot", None)
    assert _reading(probe, project(()), loaded_at_field="loaded_at", filter="id < 1", error_after=HOUR).age is None


def test_where_only_spark_would_tell_and_is_not_asked(probe: SqliteProbe) -> None:
    _fill(probe, RAW, datetime(2024, 1, 1, tzinfo=UTC))
    source = DbtSource(ORDERS, "raw.orders", RAW, "cast(loaded_at as timestamp)", warn_after=HOUR)
    observed = observe_dbt(replace(project(()), sources={ORDERS: source}), probe.lake)
    assert observed.notices == ("the freshness of raw.orders was not read",)
    version = observed.states[ORDERS].version
    assert version is not None and version.kind == "snapshot"


def test_a_view_of_sqb_has_the_versions_beneath_it(probe: SqliteProbe) -> None:
    beneath = Relation("marts", "orders")
    _fill(probe, beneath, datetime(2024, 1, 1, tzinfo=UTC))
    sources = '{"marts.orders":[1,null,"x"],"view marts.v":["d","c"]}'
    probe.put_view(RAW, "select 1", {"sqb.sources": sources, "sqb.local_hash": "h", "sqb.model": "raw.orders"})
    one = _reading(probe, project(()))
    assert one.is_view and one.version is not None and one.version.kind == "beneath"
    assert _reading(probe, project(())) == one
    probe.append_as_stranger(beneath, [[9], [datetime(2024, 1, 2, tzinfo=UTC)]])
    assert _reading(probe, project(())) != one


def test_a_view_of_others_has_no_version(probe: SqliteProbe) -> None:
    probe.put_view(RAW, "select 1", {})
    assert _reading(probe, project(())) == DbtRelationState(True, True)


def test_state_of_a_newer_sqb_is_refused(probe: SqliteProbe) -> None:
    probe.lake.state.append_fingerprints([build_fingerprint(node("model.totals"), {}, "run 1", NOW)])
    table = probe.table(FINGERPRINTS.get_relation("analytics"))
    with table.transaction() as change:
        change.set_properties({"sqb.state_version": "99"})
    with pytest.raises(NewerState):
        observe_dbt(project(), probe.lake)
