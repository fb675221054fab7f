"""A catalog that only pyiceberg knows how to open, as those of Hive and Glue are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from contract.lakes import ID_AND_NAME, ORDERS, SUMMARY, IcebergProbe, state, write
from contract.test_clones import OWN
from contract.test_state import fingerprint
from contract.test_views import A, move
from sqb.errors.lake import CatalogUnreachable, Conflict, LakeError, LakeMoved
from sqb.lake.iceberg import IcebergLake
from sqb.lake.janitor.run import Janitor
from sqb.names import Relation
from sqb.project.config.connections.lake_location import LakeLocation
from sqb.project.config.settings import Retention

COPY = Relation("dev", "orders")


@pytest.fixture
def given(tmp_path: Path) -> IcebergProbe:
    probe = IcebergProbe()
    options = {"py-catalog-impl": "pyiceberg.catalog.sql.SqlCatalog", "catalog-impl": "org.example.Catalog"}
    uri, warehouse = f"sqlite:///{tmp_path}/given.db", str(tmp_path / "data")
    probe.lake = IcebergLake(LakeLocation("team", "catalog-impl", "lake", uri, warehouse, options))
    return probe


def test_tables_are_written_read_and_refused_when_they_moved(given: IcebergProbe) -> None:
    assert given.lake.list_pointers() == {}
    first = write(given, [[1], ["a"]])
    assert state(given) == first.state and given.rows(ORDERS) == [(1, "a")]
    second = write(given, [[2], ["b"]], base=first.state.base, run_id="r2")
    with pytest.raises(Conflict):
        write(given, [[3], ["c"]], base=first.state.base, run_id="r3")
    assert given.lake.touch(ORDERS, second.state.base, SUMMARY).state == state(given)
    given.lake.state.append_fingerprints([fingerprint("a")])
    assert len(given.lake.state.read_fingerprints(["dev", "other"])) == 1


def test_clones_take_the_place_of_what_was_seen(given: IcebergProbe) -> None:
    first = write(given, [[1], ["a"]])
    made = given.lake.clone(ORDERS, first.snapshot_id, COPY, OWN, None, "r2")
    assert given.rows(COPY) == [(1, "a")]
    with pytest.raises(Conflict):
        given.lake.clone(ORDERS, first.snapshot_id, COPY, OWN, None, "r3")
    write(given, [[2], ["b"]], base=made.state.base, target=COPY, run_id="r4")
    given.lake.clone(ORDERS, first.snapshot_id, COPY, OWN, state(given, COPY).base, "r5")
    assert given.rows(COPY) == [(1, "a")]


def test_a_janitor_removes_what_a_killed_run_left(given: IcebergProbe) -> None:
    write(given, [[1], ["a"]])
    run = "20260301_120000_aaaaaa"
    with pytest.raises(KeyboardInterrupt), given.lake.hold_run(run, "shop dev"):
        stage = given.lake.stage(ORDERS, ID_AND_NAME, state(given).base, run)
        given.lake.fill(stage, [[2], ["b"]])
        raise KeyboardInterrupt
    given.lake.settle_run(run)
    swept = list(Janitor(given.lake, Retention()).clean())
    assert [s.what for s in swept] == ["stage"] and given.lake.list_pointers().keys() == {ORDERS}
    assert given.rows(ORDERS) == [(1, "a")]


def test_what_it_cannot_do_is_said(given: IcebergProbe) -> None:
    with pytest.raises(LakeError, match="of the type catalog-impl have no views"):
        given.lake.swap_views([move(A)])
    write(given, [[1], ["a"]])
    with pytest.raises(LakeMoved):
        IcebergLake(replace(given.lake.place, warehouse="/elsewhere")).list_pointers()
    wrong = replace(given.lake.place, type="hive", uri="thrift://127.0.0.1:1", options={"token": "s3cr3t"})
    with pytest.raises(CatalogUnreachable, match="the connection team, of the type hive") as caught:
        IcebergLake(wrong).list_pointers()
    assert caught.value.hint and "s3cr3t" not in str(caught.value)
