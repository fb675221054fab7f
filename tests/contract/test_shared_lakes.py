"""Lakes that a team shares: what the catalog's server and the object store can do to them."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from contract.lakes import ID_AND_NAME, ORDERS, SUMMARY, PostgresProbe, state, write
from contract.test_environments_and_the_janitor import A1, A2, World, list_actions
from contract.test_views import A, B, move, text, there
from sqb.errors.base import SqbError
from sqb.errors.connections import CatalogDenied, StorageUnreachable
from sqb.errors.lake import CatalogUnreachable, CommitUnknown, LakeMoved, NotACatalog
from sqb.lake.catalog import postgres_connection as postgres
from sqb.lake.catalog.postgres_connection import PatientConnection
from sqb.lake.iceberg import IcebergLake
from sqb.lake.liveness import object_store as object_runs
from sqb.lake.liveness import postgres as postgres_runs
from sqb.lake.storage.s3 import ObjectStorage
from sqb.names import Relation
from sqb.project.config.connections.lake_location import LakeLocation, complete_s3_options
from support.object_store import Store
from support.postgres import Server

COPY = Relation("dev", "orders")


@pytest.fixture
def team(postgres: Server, tmp_path: Path) -> Iterator[PostgresProbe]:
    """A catalog on a server, a warehouse in a folder."""
    made = PostgresProbe(postgres, str(tmp_path / "data"))
    yield made
    made.close()


@pytest.fixture
def far(postgres: Server, object_store: Store) -> Iterator[PostgresProbe]:
    """A catalog on a server, a warehouse in an object store."""
    made = PostgresProbe(postgres, f"s3://{object_store.new_bucket()}/lake", object_store.options)
    yield made
    made.close()


# --- what keeps them from being used --------------------------------------------------------------------------------


@pytest.fixture
def hole() -> Iterator[int]:
    """The port of a server that takes connections and says nothing."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen(50)
        yield one.getsockname()[1]


def failure(place: LakeLocation) -> SqbError:
    began = time.monotonic()
    with pytest.raises(SqbError) as caught:
        IcebergLake(place).ensure_schemas(["shop"])
    assert time.monotonic() - began < 30
    assert "s3cr3t" not in f"{caught.value} {caught.value.hint}"
    return caught.value


@pytest.mark.parametrize(
    ("uri", "why", "hint"),
    [
        ("postgresql://a:s3cr3t@127.0.0.1:1/d", "127.0.0.1:1, database d: Connection refused", "check host and port"),
        ("postgresql://a:s3cr3t@127.0.0.1:HOLE/d?connect_timeout=2", "timeout", "check host and port"),
        (
            "postgresql://a:s3cr3t@127.0.0.1:1/d?connect_timeout=abc",
            "connect_timeout",
            "correct `connect_timeout` behind",
        ),
        ("postgresql://a:s3cr3t@127.0.0.1:1/d?sslmod=require", '"sslmod"', "correct `sslmod` behind"),
        ("postgresql://a:s3cr3t@127.0.0.1:1/d?sslmode=x", "sslmode", "correct `sslmode` behind"),
        ("postgresql://a:s3cr3t@no.host.invalid/d", "'no.host.invalid'", "check host and port"),
        ("postgresql://postgres:s3cr3twrong@127.0.0.1:PORT/d", "password authentication failed", "@@ENV:NAME"),
        ("postgresql://postgres:WORD@127.0.0.1:PORT/nowhere", '"nowhere" does not exist', "create the database"),
    ],
)
def test_a_server_that_cannot_be_reached(
    uri: str, why: str, hint: str, postgres: Server, hole: int, tmp_path: Path
) -> None:
    real = postgres.url().split(":")[2].split("@")[0]
    uri = uri.replace("PORT", str(postgres.port)).replace("HOLE", str(hole)).replace("WORD", real)
    error = failure(LakeLocation("team", uri=uri, warehouse=str(tmp_path)))
    assert isinstance(error, CatalogDenied if "password" in why else CatalogUnreachable)
    assert "the connection team" in error.message
    assert why in error.message and error.hint is not None and hint in error.hint


def test_databases_that_hold_something_else(team: PostgresProbe) -> None:
    assert team.lake.list_pointers() == {}, "a schema that is not there yet is an empty lake"
    team.server.run(f"CREATE SCHEMA {team.schema}", f"CREATE TABLE {team.schema}.people(name text)")
    assert team.lake.list_pointers() == {}, "tables of others stand in nobody's way"
    key = "catalog_name text, table_namespace text, table_name text"
    tables = f"CREATE TABLE {team.schema}.iceberg_tables"
    team.server.run(
        f"{tables}({key}, metadata_location text, previous_metadata_location text)",
        f"CREATE TABLE {team.schema}.iceberg_namespace_properties"
        "(catalog_name text, namespace text, property_key text, property_value text)",
    )
    with pytest.raises(NotACatalog, match="iceberg_type") as caught:
        team.lake.list_pointers()
    assert caught.value.hint is not None and "ALTER TABLE iceberg_tables ADD COLUMN iceberg_type" in caught.value.hint
    team.server.run(f"DROP TABLE {team.schema}.iceberg_tables", f"{tables}(name text)")
    with pytest.raises(NotACatalog, match="not those of an Iceberg catalog"):
        team.lake.list_pointers()


def test_a_user_who_may_not(team: PostgresProbe) -> None:
    name = f"poor_{team.schema}"
    team.server.run(f"CREATE SCHEMA {team.schema}", f"CREATE ROLE {name} LOGIN PASSWORD 'x'")
    uri = team.place.uri.replace(team.server.url().split("@")[0], f"postgresql://{name}:x")
    error = failure(replace(team.place, uri=uri))
    assert isinstance(error, CatalogDenied)
    assert "is not for this user: permission denied for schema" in error.message and "GRANT" in f"{error.hint}".upper()
    team.server.run(f"GRANT USAGE ON SCHEMA {team.schema} TO {name}")
    assert "permission denied" in failure(replace(team.place, uri=uri)).message
    team.server.run(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


def test_a_catalog_belongs_to_one_warehouse(far: PostgresProbe) -> None:
    write(far, [[1], ["a"]])
    assert IcebergLake(replace(far.place, warehouse=f"{far.place.warehouse}/")).list_pointers().keys() == {ORDERS}
    with pytest.raises(LakeMoved, match="s3://"):
        IcebergLake(replace(far.place, warehouse="s3://elsewhere/lake")).list_pointers()


def test_a_store_that_cannot_be_used(far: PostgresProbe, hole: int) -> None:
    nowhere = {**far.place.options, "s3.endpoint": "http://127.0.0.1:1"}
    silent = {**far.place.options, "s3.endpoint": f"http://127.0.0.1:{hole}", "s3.request-timeout": "1"}
    for place, why, hint in (
        (replace(far.place, warehouse="s3://no-such-bucket/lake"), "no bucket no-such-bucket", "create the bucket"),
        (replace(far.place, options=nowhere), "at http://127.0.0.1:1: Could not connect to server", "s3.endpoint"),
        (replace(far.place, options=silent), "Timeout was reached", "s3.endpoint"),
    ):
        error = failure(place)
        assert isinstance(error, StorageUnreachable) and "of the connection team" in error.message
        assert why in error.message and error.hint is not None and hint in error.hint
    write(far, [[1], ["a"]])
    with pytest.raises(StorageUnreachable):
        lake = IcebergLake(replace(far.place, options=nowhere))
        lake.read_tables(lake.list_pointers().values())


@pytest.mark.parametrize(
    ("messages", "why", "hint"),
    [
        ("AWS Error ACCESS_DENIED during HeadObject operation: No response body.", "access denied", "access-key"),
        (
            "AWS Error INVALID_ACCESS_KEY_ID during PutObject operation: The Access Key Id s3cr3t-id does not exist",
            "The Access Key Id *** does not exist",
            "access-key",
        ),
        (
            "AWS Error NO_SUCH_BUCKET during PutObject operation: The specified bucket does not exist",
            "bucket",
            "create",
        ),
    ],
)
def test_what_a_store_says(messages: str, why: str, hint: str) -> None:
    options = {"s3.access-key-id": "s3cr3t-id", "s3.secret-access-key": "s3cr3t-key"}
    storage = ObjectStorage(LakeLocation("team", warehouse="s3://shop/lake", options=options))
    error = storage.explain(OSError(f"When doing something in 's3cr3t-id': {messages}"))
    assert error is not None and why in error.message and hint in f"{error.hint}" and "s3cr3t" not in error.message
    assert storage.explain(OSError(28, "no space")) is None and storage.explain(ValueError("AWS Error X")) is None


def test_a_server_that_goes_silent_is_given_up(team: PostgresProbe, hole: int, monkeypatch: pytest.MonkeyPatch) -> None:
    team.lake.list_pointers()
    monkeypatch.setattr(postgres, "_ANSWER_SECONDS", 0.5)
    with pytest.raises(CatalogUnreachable, match="no answer within"), team.lake.catalog.open_read_session() as session:  # type: ignore[attr-defined]
        session.query("SELECT pg_sleep(20)")
    assert team.lake.list_pointers() == {}, "the next question is asked on a connection of its own"


# --- steps whose end nobody hears of --------------------------------------------------------------------------------


class Cut:
    """Cuts the connection at the end of the next transaction, before or after the server has carried it out."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: bool) -> None:
        self.left = 1
        execute, commit = PatientConnection.execute, PatientConnection.commit

        def cut(connection: PatientConnection, done: Any) -> Any:
            if not self.left:
                return done()
            self.left -= 1
            if after:
                done()
            connection.pgconn.finish()
            raise psycopg.OperationalError("server closed the connection unexpectedly")

        def executed(connection: PatientConnection, query: Any, *values: Any, **more: Any) -> Any:
            def run() -> Any:
                return execute(connection, query, *values, **more)

            return cut(connection, run) if query == "COMMIT" else run()

        monkeypatch.setattr(PatientConnection, "execute", executed)
        monkeypatch.setattr(PatientConnection, "commit", lambda c: cut(c, lambda: commit(c)))


@pytest.mark.parametrize("after", [False, True])
def test_steps_of_the_register_are_taken_once(
    team: PostgresProbe, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write(team, [[1], ["a"]])
    team.lake.ensure_schemas(["dev"])
    cut = Cut(monkeypatch, after)
    cut.left = 0
    team.lake.clone(ORDERS, first.snapshot_id, COPY, SUMMARY, None, "r2")
    before = state(team, COPY).base
    # Tags are commits of their own; the step is the last one.
    release = team.lake.catalog.swap

    def swapping(*arguments: Any) -> None:
        cut.left = 1
        release(*arguments)

    monkeypatch.setattr(team.lake.catalog, "swap", swapping)
    team.lake.clone(ORDERS, first.snapshot_id, COPY, SUMMARY, before, "r3")
    assert cut.left == 0 and state(team, COPY).base != before and team.rows(COPY) == [(1, "a")]
    cut.left = 1
    moved = team.lake.swap_views([move(A), move(B)])
    assert cut.left == 0 and there(team) == moved and text(team, B) == "SELECT 1"


@pytest.mark.parametrize("after", [False, True])
def test_a_commit_whose_end_nobody_heard_of(team: PostgresProbe, after: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    base = write(team, [[1], ["a"]]).state.base
    stage = team.lake.stage(ORDERS, ID_AND_NAME, base, "r2")
    team.lake.fill(stage, [[2], ["b"]])
    cut = Cut(monkeypatch, after)
    if after:
        published = team.lake.publish(stage, SUMMARY)
        assert published.state.base == state(team).base and team.rows(ORDERS) == [(2, "b")]
    else:
        with pytest.raises(CommitUnknown):
            team.lake.publish(stage, SUMMARY)
        assert team.rows(ORDERS) == [(1, "a")]
    assert cut.left == 0


@pytest.mark.parametrize("after", [False, True])
def test_a_first_commit_whose_end_nobody_heard_of(
    team: PostgresProbe, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    team.lake.ensure_schemas(["shop"])
    stage = team.lake.stage(ORDERS, ID_AND_NAME, None, "r2")
    team.lake.fill(stage, [[2], ["b"]])
    files = team.files()
    cut = Cut(monkeypatch, after)
    if after:
        assert team.lake.publish(stage, SUMMARY).state.base == state(team).base
        assert team.rows(ORDERS) == [(2, "b")]
    else:
        with pytest.raises(CommitUnknown):
            team.lake.publish(stage, SUMMARY)
        team.lake.discard(stage)
        assert files - team.files() == set(), "the server may carry it out later"
    assert cut.left == 0


# --- runs that are alive --------------------------------------------------------------------------------------------

_HOLD = """
import sys; sys.path[:0] = {path!r}
from sqb.lake.iceberg import IcebergLake
from sqb.project.config.connections.lake_location import LakeLocation
place = LakeLocation("team", uri={uri!r}, warehouse="s3://nowhere/x")
with IcebergLake(place).hold_run("r1", "shop dev"):
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_a_run_of_any_machine_is_known_by_its_session(far: PostgresProbe, monkeypatch: pytest.MonkeyPatch) -> None:
    code = _HOLD.format(path=sys.path, uri=far.place.uri)
    run = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None and run.stdout.readline() == "held\n"
    assert [(r.id, r.alive, r.owner) for r in far.lake.list_runs().values()] == [("r1", True, "shop dev")]
    run.kill()
    run.wait()
    until = time.monotonic() + 10
    while far.lake.list_runs()["r1"].alive and time.monotonic() < until:
        time.sleep(0.02)
    assert far.lake.list_runs()["r1"].alive is None, "its session may have been cut: it has a while to come back"
    monkeypatch.setattr(postgres_runs, "_GRACE_SECONDS", 0)
    assert far.lake.list_runs()["r1"].alive is False


def test_a_run_whose_session_is_cut_takes_another(far: PostgresProbe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_runs, "_BEAT_SECONDS", 0.05)
    with far.lake.hold_run("r1", "shop dev") as alive:
        assert far.lake.list_runs()["r1"].alive
        far.server.run(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
        )
        until = time.monotonic() + 10
        while not far.lake.list_runs()["r1"].alive and time.monotonic() < until:
            time.sleep(0.02)
        assert far.lake.list_runs()["r1"].alive
        alive.finished = True
    assert far.lake.list_runs() == {}


def test_a_run_that_was_taken_for_dead_is_alive_again(far: PostgresProbe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_runs, "_BEAT_SECONDS", 0.05)
    with far.lake.hold_run("r1", "shop dev"):
        began = far.lake.list_runs()["r1"].started
        for take_for_dead in (far.lake.settle_run, far.lake.run_tracker.forget):
            take_for_dead("r1")
            until = time.monotonic() + 10
            while not ((run := far.lake.list_runs().get("r1")) and run.alive) and time.monotonic() < until:
                time.sleep(0.02)
            assert run is not None and run.alive and not run.settled and run.started == began


def test_many_who_come_first_make_one_catalog(team: PostgresProbe) -> None:
    def first(number: int) -> None:
        lake = IcebergLake(replace(team.place, warehouse=team.place.warehouse))
        keeper = lake.catalog.open_run_tracker()
        assert keeper is not None
        with keeper.hold(f"r{number}", "shop dev") as handle:
            assert f"r{number}" in keeper.list_runs()
            lake.ensure_schemas(["shop", f"s{number}"])
            handle.finished = True
        lake.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(first, range(8)))
    rows = team.sql("SELECT DISTINCT namespace FROM iceberg_namespace_properties")
    assert {name for (name,) in rows} == {"_sqlbuild_stage", "shop", *(f"s{n}" for n in range(8))}


def test_one_janitor_for_all_machines(far: PostgresProbe) -> None:
    with (
        far.lake.run_tracker.hold_exclusively("janitor") as first,
        IcebergLake(far.place).run_tracker.hold_exclusively("janitor") as two,
    ):
        assert (first, two) == (True, False)
    with far.lake.run_tracker.hold_exclusively("janitor") as again:
        assert again


def test_runs_on_a_store_alone_are_known_by_what_they_write(
    object_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse, options = f"s3://{object_store.new_bucket()}/lake", complete_s3_options(object_store.options)
    lake = IcebergLake(LakeLocation(uri=f"sqlite:///{tmp_path}/c.db", warehouse=warehouse, options=options))
    monkeypatch.setattr(object_runs, "_SETTLING_SECONDS", 0.0)
    assert lake.list_runs() == {}
    now, later = object_runs.ObjectRunTracker._read_clock, 0.0
    monkeypatch.setattr(object_runs.ObjectRunTracker, "_read_clock", lambda self: now(self) + later)
    with pytest.raises(KeyboardInterrupt), lake.hold_run("r1", "shop dev"):
        assert lake.list_runs()["r1"].alive and lake.list_runs()["r1"].owner == "shop dev"
        later = 100.0
        assert lake.list_runs()["r1"].alive is None, "it may only have been cut off"
        later = 1000.0
        assert lake.list_runs()["r1"].alive is False
        later = 0.0
        raise KeyboardInterrupt
    assert lake.list_runs()["r1"].alive is False, "one that ended says so"
    lake.settle_run("r1")
    assert lake.list_runs()["r1"].settled
    lake.run_tracker.forget("r1")
    with lake.hold_run("r2", "shop dev") as handle:
        handle.finished = True
    assert lake.list_runs() == {}
    with lake.run_tracker.hold_exclusively("janitor") as first, lake.run_tracker.hold_exclusively("janitor") as second:
        assert (first, second) == (True, False)
    lake.run_tracker.remove_stale()
    assert list(lake.storage.list_files(warehouse)) == []


# --- environments, and planning -------------------------------------------------------------------------------------


def test_environments_in_a_shared_lake(far: PostgresProbe) -> None:
    world = World(far)
    first, second = world.build("a", "1"), world.build("a", "2")
    world.show("dev", first)
    world.show("pr", first, ttl=5 * 86400.0)
    world.show("dev", second)
    for _ in range(2):
        world.show("dev", second)
    assert world.tables() == {A1, A2, "dev__dev.a", "dev__pr.a"}
    assert list_actions(world.clean(6), "environment") == [("environment", "pr")]
    assert ("version", A1) in list_actions(world.clean(15), "version")
    assert world.tables() == {A2, "dev__dev.a"} and world.files(first) == set()
    assert second.relation is not None and far.rows(second.relation) == [(0, "x"), (1, "x")]


@pytest.mark.parametrize("kind", ["team", "far"])
def test_planning_takes_one_query_and_nothing_heavy(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    team: PostgresProbe = request.getfixturevalue(kind)
    write(team, [[1], ["a"]])
    first = IcebergLake(team.place, cache=tmp_path / "cache")
    first.read_tables(first.list_pointers().values())
    code = f"""
import sys; sys.path[:0] = {sys.path!r}
from pathlib import Path
from sqb.lake.iceberg import IcebergLake
from sqb.project.config.connections.lake_location import LakeLocation
place = LakeLocation("team", uri={team.place.uri!r}, warehouse={team.place.warehouse!r})
lake = IcebergLake(place, cache=Path({str(tmp_path / "cache")!r}))
assert len(lake.read_tables(lake.list_pointers().values())) == 1
heavy = {{"pyiceberg", "pyarrow", "sqlalchemy", "pydantic", "sqlglot", "pyspark"}} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
