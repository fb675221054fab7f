"""What only a REST catalog shows: questions that are asked, and steps in the place of one."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contract.lakes import ID_AND_NAME, ORDERS, SUMMARY, shape, state, write
from contract.rest_probe import RestProbe, open_rest_lake
from contract.test_janitor import clean
from contract.test_views import A, move, text, there
from sqb.errors.lake import CatalogUnreachable, CommitUnknown, Conflict, LakeDamaged, LakeMoved
from sqb.lake.catalog.rest.catalog import RestLakeCatalog
from sqb.lake.iceberg import IcebergLake
from sqb.lake.port import STAGE_SCHEMA
from sqb.names import Relation
from sqb.project.config.settings import Retention
from support.rest_server import RestServer
from support.scripted_server import Asked, Says, scripted

DEV = Relation("dev", "orders")
ALL = Retention(stages=0, files=0, history=0, snapshots=0, keep_snapshots=1, clones=0)


@pytest.fixture
def rest(tmp_path: Path, rest_server: RestServer) -> RestProbe:
    return RestProbe(tmp_path / "lake", rest_server)


def register_of(probe: RestProbe) -> RestLakeCatalog:
    register = probe.lake.catalog
    assert isinstance(register, RestLakeCatalog)
    return register


def asked_by(probe: RestProbe, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that are asked for from now on."""
    asked: list[str] = []
    client = register_of(probe).client
    send = client._connections.send

    def noted(method: str, url: str, *rest: Any) -> Any:
        asked.append(f"{method} {url.partition('/v1/')[2]}")
        return send(method, url, *rest)

    monkeypatch.setattr(client._connections, "send", noted)
    return asked


def test_tables_that_nobody_asks_for_are_not_loaded(rest: RestProbe, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abcdefg":
        write(rest, [[1], ["a"]], target=Relation("theirs", name))
    write(rest, [[1], ["a"]])
    asked = asked_by(rest, monkeypatch)
    pointers = rest.lake.list_pointers()
    assert Relation("theirs", "a") in set(pointers)
    assert rest.lake.read_tables([pointers[ORDERS]])[ORDERS].rows == 1
    assert [a for a in asked if "/tables/" in a] == ["GET namespaces/shop/tables/orders"]
    asked.clear()
    assert rest.lake.read_lineage(ORDERS)
    assert asked == ["GET namespaces/shop/tables/orders"]


def test_metadata_comes_with_the_answer_and_is_not_read_again(rest: RestProbe, monkeypatch: pytest.MonkeyPatch) -> None:
    write(rest, [[1], ["a"]])
    monkeypatch.setattr(rest.lake.storage, "read", lambda location: pytest.fail(f"{location} was read"))
    assert state(rest).rows == 1


def test_schemas_in_schemas(rest: RestProbe) -> None:
    deep = Relation("shop.eu.north", "orders")
    rest.lake.ensure_schemas(["shop", "shop.eu", "shop.eu.north"])
    write(rest, [[1], ["a"]], target=deep)
    assert {r for r in rest.lake.list_pointers() if r.schema != STAGE_SCHEMA} == {deep}
    assert state(rest, deep).rows == 1


def test_another_warehouse_is_another_lake(rest: RestProbe, tmp_path: Path) -> None:
    write(rest, [[1], ["a"]])
    other = open_rest_lake(tmp_path / "elsewhere", rest.server)
    with pytest.raises(LakeMoved, match="is used with the warehouse"):
        list(other.list_pointers())
    with pytest.raises(LakeMoved):
        other.ensure_schemas(["x"])


def test_a_table_whose_metadata_is_lost(rest: RestProbe) -> None:
    write(rest, [[1], ["a"]])
    pointer = rest.lake.list_pointers()[ORDERS]
    Path(pointer.location).unlink()
    with pytest.raises(LakeDamaged, match=f"shop.orders is described by .*{Path(pointer.location).name}"):
        rest.lake.read_tables([rest.lake.list_pointers()[ORDERS]])


@pytest.mark.parametrize("times", [1, 2])
def test_a_commit_just_before_a_table_is_set_aside_is_not_lost(
    rest: RestProbe, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """A clone takes the place of a table, while somebody appends to that."""
    made = write(rest, [[1], ["a"]])
    base = write(rest, [[7], ["x"]], target=DEV).state.base
    register = register_of(rest)
    rename: Callable[..., None] = register._rename
    left = [times]

    def meddled(before: Relation, after: Relation, is_view: bool) -> None:
        if left[0] > 0 and before == DEV:
            left[0] -= 1
            rest.append_as_stranger(DEV, [[8], ["y"]])
        rename(before, after, is_view)

    monkeypatch.setattr(register, "_rename", meddled)
    assert made.snapshot_id is not None
    with pytest.raises(Conflict, match="nothing was overwritten"):
        rest.lake.clone(ORDERS, made.snapshot_id, DEV, SUMMARY, base, "r2")
    assert rest.rows(DEV) == [(7, "x"), (8, "y")]
    assert rest.entries() == {"shop.orders", "dev.orders"}
    assert rest.tags(ORDERS) == {}


def test_a_table_that_moved_is_not_forgotten(rest: RestProbe) -> None:
    write(rest, [[1], ["a"]])
    pointer = rest.lake.list_pointers()[ORDERS]
    rest.append_as_stranger(ORDERS, [[2], ["b"]])
    assert not rest.lake.drop_if_current(pointer)
    assert rest.lake.drop_if_current(rest.lake.list_pointers()[ORDERS])
    assert rest.entries() == set()


def test_a_clone_shares_files_for_as_long_as_it_is_there(rest: RestProbe) -> None:
    made = write(rest, [[1], ["a"]])
    assert made.snapshot_id is not None
    cloned = rest.lake.clone(ORDERS, made.snapshot_id, DEV, SUMMARY, None, "r2")
    messages = clean(rest, ALL)
    assert [(s.what, s.name) for s in messages if s.what in ("kept", "clone")] == [("kept", "dev.orders")]
    assert "its catalog cannot exchange a table's metadata" in next(s.why for s in messages if s.what == "kept")
    assert rest.rows(DEV) == [(1, "a")] == rest.rows(ORDERS)
    write(rest, [[2], ["b"]], base=cloned.state.base, run_id="r3", target=DEV)
    write(rest, [[3], ["c"]], base=made.state.base, run_id="r4")
    clean(rest, ALL)
    assert rest.rows(DEV) == [(2, "b")]
    assert rest.rows(DEV, made.snapshot_id) == [(1, "a")] == rest.rows(ORDERS, made.snapshot_id)
    rest.lake.drop_stage(DEV)
    clean(rest, ALL)
    assert rest.tags(ORDERS) == {}
    assert rest.rows(ORDERS) == [(3, "c")]


def test_what_is_kept_of_tables_does_not_grow(rest: RestProbe, tmp_path: Path) -> None:
    lake = open_rest_lake(rest.root, rest.server, cache=tmp_path / "cache")
    made = write(rest, [[1], ["a"]])
    for n in range(3):
        lake.read_tables([lake.list_pointers()[ORDERS]])
        base = made.state.base
        made = write(rest, [[n], ["b"]], base=base, run_id=f"r{n}", wanted=shape(("id", "long"), ("name", "string")))
    lake.read_tables([lake.list_pointers()[ORDERS]])
    lines = (tmp_path / "cache" / "tables").read_text().splitlines()
    assert len([line for line in lines if "/shop/orders/" in line]) == 1


def test_schemas_go_when_nothing_is_in_them(rest: RestProbe) -> None:
    write(rest, [[1], ["a"]])
    rest.lake.ensure_schemas(["empty"])
    rest.lake.drop_empty_schemas(["empty", "shop", "none", STAGE_SCHEMA])
    listed = register_of(rest).client.iter_pages("namespaces", "namespaces")
    assert sorted(n[0] for n in listed) == [STAGE_SCHEMA, "shop"]


def test_stages_that_go_in_the_middle_of_a_round(rest: RestProbe, monkeypatch: pytest.MonkeyPatch) -> None:
    write(rest, [[1], ["a"]])
    gone, lost = (rest.lake.stage(DEV, ID_AND_NAME, None, run).relation for run in ("r1", "r2"))
    Path(rest.table(lost).metadata_location).unlink()
    runs = rest.lake.list_runs

    def meanwhile() -> Any:
        rest.drop_as_stranger(gone)
        return runs()

    monkeypatch.setattr(rest.lake, "list_runs", meanwhile)
    dry = clean(rest, ALL, dry_run=True, days=9)
    assert {(s.what, s.name) for s in dry} >= {("stage", str(lost))} and rest.entries() == {"shop.orders", str(lost)}
    clean(rest, ALL, days=9)
    assert rest.entries() == {"shop.orders"} and rest.rows(ORDERS) == [(1, "a")]


# --- networks that break --------------------------------------------------------------------------------------------


@pytest.fixture
def through(rest: RestProbe) -> Iterator[tuple[IcebergLake, dict[str, int]]]:
    """The lake behind a proxy, and the ends of the paths whose answers it swallows after it has passed them on.

    It says another status in their place, or nothing where that is 0.
    """
    swallowed: dict[str, int] = {}

    def passed_on(asked: Asked) -> Says:
        request = urllib.request.Request(
            f"{rest.server.uri}{asked.path}",
            data=asked.body or None,
            method=asked.method,
            headers={"Content-Type": asked.headers.get("Content-Type", "application/json")},
        )
        try:
            with urllib.request.urlopen(request) as answer:
                status, body = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, body = error.code, error.read()
        for end, instead in swallowed.items():
            if asked.method == "POST" and asked.path.endswith(end):
                if not instead:
                    raise ConnectionError
                return Says(instead, b"<html>a gateway</html>")
        return Says(status, body)

    with scripted(passed_on) as proxy:
        lake = IcebergLake(replace(rest.lake.place, uri=proxy.uri))
        yield lake, swallowed
        lake.catalog.close()


@pytest.mark.parametrize("first", [True, False])
def test_an_answer_that_gets_lost_is_not_taken_for_a_failure(
    rest: RestProbe, through: tuple[IcebergLake, dict[str, int]], first: bool
) -> None:
    lake, swallowed = through
    base = None if first else write(rest, [[1], ["a"]]).state.base
    lake.ensure_schemas(["shop"])
    stage = lake.stage(ORDERS, ID_AND_NAME, base, "r2")
    lake.fill(stage, [[2], ["b"]])
    swallowed |= {"/shop/register": 0, "/shop/tables/orders": 0}
    with pytest.raises(CommitUnknown, match=r"the catalog did not say whether the commit to shop\.orders took place"):
        lake.publish(stage, SUMMARY)
    swallowed.clear()
    lake.discard(stage)
    assert rest.rows(ORDERS) == [(2, "b")], "it took place, and its rows are there"


@pytest.mark.parametrize("status", [0, 502])
@pytest.mark.parametrize("over", ["nothing", "a table", "a view"])
def test_a_clone_whose_answer_gets_lost_is_there(
    rest: RestProbe, through: tuple[IcebergLake, dict[str, int]], over: str, status: int
) -> None:
    lake, swallowed = through
    made = write(rest, [[1], ["a"]])
    rest.lake.ensure_schemas(["dev"])
    if over == "a table":
        write(rest, [[7], ["x"]], target=DEV)
    if over == "a view":
        rest.put_view(DEV, "SELECT 1 AS id", {})
    base = None if over == "nothing" else state(rest, DEV).base
    swallowed["/dev/register"] = status
    lake.clone(ORDERS, made.snapshot_id, DEV, SUMMARY, base, "r2")
    assert rest.rows(DEV) == [(1, "a")] and rest.entries() == {"shop.orders", "dev.orders"}
    assert len(rest.tags(ORDERS)) == 1


def test_a_clone_of_which_nobody_can_tell_keeps_what_it_may_need(
    rest: RestProbe, through: tuple[IcebergLake, dict[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, swallowed = through
    made = write(rest, [[1], ["a"]])
    lake.ensure_schemas(["dev"])
    swallowed["/dev/register"] = 504
    load = RestLakeCatalog.load

    def unheard(self: RestLakeCatalog, relation: Relation, is_view: bool | None = None) -> Any:
        if relation == DEV:
            raise CatalogUnreachable("cut off")
        return load(self, relation, is_view)

    with monkeypatch.context() as patch:
        patch.setattr(RestLakeCatalog, "load", unheard)
        with pytest.raises(CommitUnknown, match=r"did not say whether dev\.orders was changed"):
            lake.clone(ORDERS, made.snapshot_id, DEV, SUMMARY, None, "r2")
    assert rest.rows(DEV) == [(1, "a")] and len(rest.tags(ORDERS)) == 1


def test_a_table_in_the_place_of_a_view_whose_answer_gets_lost(
    rest: RestProbe, through: tuple[IcebergLake, dict[str, int]]
) -> None:
    lake, swallowed = through
    rest.put_view(ORDERS, "SELECT 1 AS id", {})
    stage = lake.stage(ORDERS, ID_AND_NAME, None, "r2", state(rest).base)
    lake.fill(stage, [[2], ["b"]])
    swallowed["/shop/register"] = 0
    lake.publish(stage, SUMMARY)
    assert rest.rows(ORDERS) == [(2, "b")] and rest.entries() == {"shop.orders"}


def test_views_whose_answers_get_lost_are_there(rest: RestProbe, through: tuple[IcebergLake, dict[str, int]]) -> None:
    lake, swallowed = through
    swallowed |= {"/views": 0, "/views/a": 502}
    moved = lake.swap_views([move(A)])
    assert there(rest) == moved and text(rest, A) == "SELECT 1"
    moved = lake.swap_views([move(A, "SELECT 2", before=moved[A])])
    assert there(rest) == moved and text(rest, A) == "SELECT 2"


def test_a_table_whose_renaming_gets_lost_has_its_name_again(
    rest: RestProbe, through: tuple[IcebergLake, dict[str, int]]
) -> None:
    lake, swallowed = through
    made = write(rest, [[1], ["a"]])
    base = write(rest, [[7], ["x"]], target=DEV).state.base
    swallowed["/tables/rename"] = 0
    with pytest.raises(CatalogUnreachable):
        lake.clone(ORDERS, made.snapshot_id, DEV, SUMMARY, base, "r2")
    with pytest.raises(CatalogUnreachable):
        lake.drop_if_current(rest.lake.list_pointers()[DEV])
    assert rest.rows(DEV) == [(7, "x")] and rest.entries() == {"shop.orders", "dev.orders"}


def test_a_server_that_is_gone_in_the_middle(rest: RestProbe) -> None:
    with scripted(lambda asked: Says(body={"defaults": {}, "overrides": {}})) as server:
        lake = IcebergLake(replace(rest.lake.place, uri=server.uri))
        register = lake.catalog
        assert isinstance(register, RestLakeCatalog)
        catalog = register.open_pyiceberg()
    with pytest.raises(CatalogUnreachable, match="connection team does not answer"), lake.translate_errors():
        catalog.load_table("shop.orders")
    register.close()
    with pytest.raises(CatalogUnreachable, match="connection team does not answer"):
        list(lake.list_pointers())
