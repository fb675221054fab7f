"""Catalogs that only pyiceberg knows how to open: one by its class, and Glue, as moto's server has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contract.lakes import ID_AND_NAME, ORDERS, SUMMARY, IcebergProbe, state, write
from contract.test_clones import OWN
from contract.test_state import fingerprint
from contract.test_views import A, move
from sqb.errors.lake import CatalogUnreachable, Conflict, LakeError, LakeMoved
from sqb.lake.iceberg import IcebergLake
from sqb.lake.janitor.run import Janitor
from sqb.names import Relation
from sqb.project.config.connections.lake_location import LakeLocation, complete_s3_options
from sqb.project.config.settings import Retention
from support.object_store import Store

COPY = Relation("dev", "orders")


@pytest.fixture(params=["class", "glue"])
def given(request: pytest.FixtureRequest, tmp_path: Path) -> IcebergProbe:
    probe = IcebergProbe()
    if request.param == "glue":
        probe.lake = IcebergLake(build_glue_location(request.getfixturevalue("object_store")))
        return probe
    options = {"py-catalog-impl": "pyiceberg.catalog.sql.SqlCatalog", "catalog-impl": "org.example.Catalog"}
    uri, warehouse = f"sqlite:///{tmp_path}/given.db", str(tmp_path / "data")
    probe.lake = IcebergLake(LakeLocation("team", "catalog-impl", "lake", uri, warehouse, options))
    return probe


def build_glue_location(store: Store) -> LakeLocation:
    """A Glue of its own: every test begins with an empty one, as moto has one for all."""
    bucket = store.new_bucket()
    options = {**store.options, "client.region": "eu-west-1", "glue.endpoint": store.endpoint}
    options |= {f"client.{name}": store.options[f"s3.{name}"] for name in ("access-key-id", "secret-access-key")}
    reset = request_glue(options)
    for database in reset.get_databases()["DatabaseList"]:
        reset.delete_database(Name=database["Name"])
    return LakeLocation("team", "glue", "lake", "", f"s3://{bucket}/data", complete_s3_options(options))


def request_glue(options: Mapping[str, str]) -> Any:
    import boto3

    return boto3.client(
        "glue",
        endpoint_url=options["glue.endpoint"],
        region_name=options["client.region"],
        aws_access_key_id=options["s3.access-key-id"],
        aws_secret_access_key=options["s3.secret-access-key"],
    )


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
    with pytest.raises(LakeError, match=f"of the type {given.lake.place.type} have no views"):
        given.lake.swap_views([move(A)])
    write(given, [[1], ["a"]])
    with pytest.raises(LakeMoved):
        IcebergLake(replace(given.lake.place, warehouse="/elsewhere")).list_pointers()
    wrong = replace(given.lake.place, type="hive", uri="thrift://127.0.0.1:1", options={"token": "s3cr3t"})
    with pytest.raises(CatalogUnreachable, match="the connection team, of the type hive") as caught:
        IcebergLake(wrong).list_pointers()
    assert caught.value.hint and "s3cr3t" not in str(caught.value)
