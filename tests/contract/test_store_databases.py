"""The databases behind stores: several processes, processes that die, versions of the tables, and what goes wrong."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from contract.stores import SCOPE, binding, environment, journal, move
from sqb.environments.state.database import Database
from sqb.environments.state.duckdb import DuckdbDatabase
from sqb.environments.state.open import open_store
from sqb.environments.state.postgres import PostgresDatabase
from sqb.environments.state.records import encode_binding, encode_journal
from sqb.environments.state.schema import MIGRATIONS, Migration
from sqb.environments.state.sql_store import SqlStore
from sqb.errors.base import SqbError
from sqb.errors.call import CallError
from sqb.errors.environments import EnvironmentLocked, LockLost, StateNotReady, StateUnreachable
from sqb.project.config.virtual import parse_postgres
from support.postgres import PASSWORD, Server

A = binding("a")
Where = tuple[str, Path]

_SETUP = """
import os, sys, time
from pathlib import Path
from contract.stores import *
from sqb.environments.state.open import open_store
from sqb.errors.environments import EnvironmentLocked, LockLost
store = open_store(sys.argv[1], SCOPE, Path(sys.argv[2]))
me = sys.argv[3]
def say(text): print(text, flush=True)
def wait(): say("ready"); sys.stdin.readline()
"""


def start(where: Where, script: str, name: str) -> subprocess.Popen[str]:
    paths = [str(Path(__file__).parents[1]), *sys.path]
    code = f"import sys; sys.path[:0] = {paths!r}\n{_SETUP}\n{textwrap.dedent(script)}"
    arguments = [sys.executable, "-c", code, where[0], str(where[1]), name]
    return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def until_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None and process.stdout.readline() == "ready\n"


def race(where: Where, script: str, names: list[str]) -> list[str]:
    """Let a process per name go on at the same moment, and collect what they say."""
    processes = [start(where, script, name) for name in names]
    for process in processes:
        until_ready(process)
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [process.communicate(timeout=60)[0].strip() for process in processes]


@pytest.fixture(params=["duckdb", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Where:
    """The address of a state that is set up."""
    if request.param == "duckdb":
        return ("duckdb:///lake/state.duckdb", tmp_path)
    server: Server = request.getfixturevalue("postgres")
    url = server.url(server.new_database())
    open_store(url, SCOPE, tmp_path).prepare()
    return (url, tmp_path)


@pytest.fixture
def store(where: Where) -> Iterator[SqlStore]:
    made = open_store(where[0], SCOPE, where[1])
    assert isinstance(made, SqlStore)
    yield made
    made.close()


@pytest.fixture(params=["duckdb", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Database]]:
    """Opens a database that has not been set up."""
    if request.param == "duckdb":
        yield lambda: DuckdbDatabase(tmp_path / "state.duckdb", "state.duckdb")
        return
    server: Server = request.getfixturevalue("postgres")
    address = parse_postgres(server.url(server.new_database()))
    with ExitStack() as stack:

        def make() -> Database:
            made = PostgresDatabase(address)
            stack.callback(made.close)
            return made

        yield make


# --- several processes ------------------------------------------------------------------------------------------------


def test_processes_move_their_environments_at_once(where: Where, store: SqlStore) -> None:
    script = """
    wait()
    for turn in range(3):
        move(store, f"{me}_{turn}", [binding("a"), binding(me, f"v{turn}")], me)
        store.add_freshness(me, [freshness("orders", str(turn), turn)])
    say("done")
    """
    assert race(where, script, ["one", "two"]) == ["done"] * 2
    assert set(store.read_environments()) == {"one", "two"}
    for name in ("one", "two"):
        assert set(store.read_refs(name)) == {"a", name}
        assert [c.number for c in store.read_checkpoints(name)] == [3, 2, 1]
        assert [r.data_version for r in store.read_freshness(name)] == ["2"]
    # Ids of bindings are made of their content: `a` is kept once.
    assert len(store.read_bindings()) == 1 + 2 * 3


def test_of_those_who_want_a_lock_one_gets_it(where: Where, store: SqlStore) -> None:
    script = """
    wait()
    try:
        with store.lock("dev", me):
            say("mine"); time.sleep(1)
    except EnvironmentLocked as error:
        say("locked" if "worked on by" in error.message else error.message)
    """
    assert sorted(race(where, script, ["one", "two"])) == ["locked", "mine"]


def test_the_first_use_by_several_sets_it_up_once(tmp_path: Path) -> None:
    where = ("duckdb:///deep/folder/state.duckdb", tmp_path)
    script = """
    wait()
    say(len(store.read_environments()))
    """
    assert race(where, script, ["one", "two"]) == ["0"] * 2


def test_setting_up_at_once_is_done_once(postgres: Server, tmp_path: Path) -> None:
    where = (postgres.url(postgres.new_database()), tmp_path)
    script = """
    wait()
    say(store.prepare())
    """
    assert sorted(race(where, script, ["one", "two"])) == ["False", "True"]


def test_a_lock_ends_with_its_process(where: Where, store: SqlStore) -> None:
    process = start(where, 'with store.lock("dev", me) as token: wait()', "anna")
    until_ready(process)
    assert [lock.owner for lock in store.read_locks().values()] == ["anna"]
    with pytest.raises(EnvironmentLocked, match="dev is being worked on by anna, for"), store.lock("dev", "ben"):
        pass
    process.send_signal(signal.SIGKILL)
    process.wait()
    until = time.monotonic() + 5
    while store.read_locks() and time.monotonic() < until:
        time.sleep(0.02)
    assert store.read_locks() == {}
    with store.lock("dev", "ben") as token:
        store.set_environment(environment(), token)


def test_a_process_whose_lock_was_taken_over_is_refused(where: Where, store: SqlStore) -> None:
    script = """
    try:
        with store.lock("dev", me) as token:
            wait()
            store.begin_journal(journal("j1", [binding("a")]), token)
    except LockLost as error:
        say(error.message)
    """
    process = start(where, script, "anna")
    until_ready(process)
    with store.lock("dev", "ben", take_over=True) as token:
        output = process.communicate("go\n", timeout=30)[0]
        assert output.startswith("dev was taken over by ben while this command worked")
        assert store.read_journal("dev") is None
        store.begin_journal(journal("j2", [A]), token)
        assert store.read_locks()["dev"].owner == "ben"


def test_a_process_killed_within_a_transaction_leaves_nothing(where: Where, store: SqlStore) -> None:
    script = """
    with store._begin_write() as transaction:
        transaction.insert("unused", ("scope", "relation", "since"), [(SCOPE, "a.b", "2026-01-01T00:00:00+00:00")])
        wait()
    """
    store.read_environments()
    process = start(where, script, "anna")
    until_ready(process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert store.read_unused() == {}
    move(store, "j1", [A])
    assert set(store.read_refs("dev")) == {"a"}


# --- versions of the tables -------------------------------------------------------------------------------------------

_LATER: tuple[Migration, ...] = (
    *MIGRATIONS,
    ("ALTER TABLE environments ADD COLUMN note text", "UPDATE environments SET note = 'old'"),
    ("CREATE TABLE notes (name text)",),
)


def test_an_older_state_is_migrated_on_request(database: Callable[[], Database]) -> None:
    old = SqlStore(database(), SCOPE)
    assert old.read_schema_version() is None and old.prepare() is True and old.read_schema_version() == 3
    move(old, "j1", [A])
    new = SqlStore(database(), SCOPE, _LATER)
    with pytest.raises(StateNotReady) as caught:
        new.read_environments()
    assert caught.value.message.endswith("is of version 3; this sqb needs version 5")
    assert caught.value.hint == "run `sqb state migrate`; older versions of sqb cannot use it after that"
    assert new.prepare() is True and new.read_schema_version() == 5 and new.prepare() is False
    assert set(new.read_refs("dev")) == {"a"}
    with database().read() as transaction:
        assert list(transaction.query("SELECT note FROM environments")) == [("old",)]


def test_a_state_of_the_first_version_gets_an_id(database: Callable[[], Database]) -> None:
    old = SqlStore(database(), SCOPE, MIGRATIONS[:1])
    old.prepare()
    # Its checkpoints had other columns: they are the matter of a test of their own.
    move(old, "j1", [A], with_checkpoint=False)
    new = SqlStore(database(), SCOPE)
    with pytest.raises(StateNotReady):
        new.read_state_id()
    assert new.prepare() is True
    assert len(new.read_state_id()) == 32 and new.read_state_id() == SqlStore(database(), SCOPE).read_state_id()
    assert new.read_lake_id() == "" and set(new.read_refs("dev")) == {"a"}


OLD_COLUMNS = ["id", "environment", "parent", "created_at", "reason", "detail", "run_id", "git", "refs", "number"]


def test_checkpoints_of_the_second_version_tell_what_was_promoted(database: Callable[[], Database]) -> None:
    SqlStore(database(), SCOPE, MIGRATIONS[:2]).prepare()
    details = {
        "1": ("build", "", ""),
        "2": ("promote", "promoted from pr_1: 2 changed", "pr_1"),
        "3": ("promote", "promoted from hotfix: 1 added: or so", "hotfix"),
        "4": ("promote", "something else: from pr_1", ""),
        "5": ("build", "promoted from pr_1: 2 changed", ""),
        "6": ("promote", "promoted from pr_1", ""),
        "7": ("promote", "promoted from : nothing", ""),
    }
    at = "2026-01-01T00:00:00.000000+00:00"
    rows = [(id, "dev", "", at, reason, text, "r", "", "{}", int(id)) for id, (reason, text, _) in details.items()]
    old = json.loads(encode_journal(journal("j1", [A])))
    old["checkpoint"] = ["8", "dev", "", at, "promote", "promoted from pr_2: 1 added", "r", "", "{}", 0]
    with database().write() as transaction:
        transaction.insert("checkpoints", ("scope", *OLD_COLUMNS), [(SCOPE, *row) for row in rows])
        transaction.insert("journals", ("scope", "environment", "id", "data"), [(SCOPE, "dev", "j1", json.dumps(old))])
        transaction.insert("bindings", ("scope", "id", "data"), [(SCOPE, A.id, encode_binding(A))])
    store = SqlStore(database(), SCOPE)
    assert store.prepare() is True
    read = {c.id: c.promoted_from for c in store.read_checkpoints()}
    assert read == {id: origin for id, (_, _, origin) in details.items()}
    pending = store.read_journal("dev")
    assert pending is not None and pending.checkpoint is not None and pending.checkpoint.promoted_from == "pr_2"


def test_a_newer_state_is_refused(database: Callable[[], Database]) -> None:
    SqlStore(database(), SCOPE, _LATER).prepare()
    store = SqlStore(database(), SCOPE)
    for ask in (store.read_environments, store.prepare):
        with pytest.raises(StateNotReady) as caught:
            ask()
        assert caught.value.message.endswith("is of version 5; this sqb knows versions up to 3")
        assert caught.value.hint == "upgrade sqb to the version that the others use"
    with pytest.raises(StateNotReady), store.lock("dev", "me"):
        pass


def test_a_migration_that_fails_changes_nothing(database: Callable[[], Database]) -> None:
    SqlStore(database(), SCOPE).prepare()
    broken: tuple[Migration, ...] = (*MIGRATIONS, ("CREATE TABLE notes (name text)", "CREATE TABEL x"))
    with pytest.raises(Exception, match="TABEL"):
        SqlStore(database(), SCOPE, broken).prepare()
    good: tuple[Migration, ...] = (*MIGRATIONS, ("CREATE TABLE notes (name text)",))
    assert SqlStore(database(), SCOPE, good).prepare() is True


# --- DuckDB -----------------------------------------------------------------------------------------------------------


def test_a_duckdb_file_that_somebody_has_open_is_waited_for(tmp_path: Path) -> None:
    where = ("duckdb:///state.duckdb", tmp_path)
    move(open_store(where[0], SCOPE, tmp_path), "j1", [A])
    process = start(where, "with store._begin_write(): say('ready'); time.sleep(0.7)", "anna")
    until_ready(process)
    assert set(open_store(where[0], SCOPE, tmp_path).read_refs("dev")) == {"a"}
    process.wait()
    process = start(where, "with store._begin_write(): wait()", "anna")
    until_ready(process)
    impatient = SqlStore(DuckdbDatabase(tmp_path / "state.duckdb", "state.duckdb", patience=0.1), SCOPE)
    with pytest.raises(StateUnreachable) as caught:
        impatient.read_environments()
    assert caught.value.message.startswith(f"another process has had state.duckdb open for 0 s (pid {process.pid}, ")
    assert "keep the state in PostgreSQL" in str(caught.value.hint)
    process.kill()
    process.communicate()


def test_a_file_that_is_no_state_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state.duckdb").write_text("something else, and long enough to be read as a header" * 100)
    with pytest.raises(StateUnreachable, match=r"the state in state.duckdb cannot be opened: .*not a valid DuckDB"):
        open_store("duckdb:///state.duckdb", SCOPE, tmp_path).read_environments()
    (tmp_path / "file").write_text("")
    with pytest.raises(StateUnreachable, match="its folder cannot be made: "):
        open_store("duckdb:///file/state.duckdb", SCOPE, tmp_path).read_environments()
    store = open_store("duckdb:///good.duckdb", SCOPE, tmp_path)
    store.prepare()
    (tmp_path / "good.duckdb.locks").write_text("")
    with pytest.raises(StateUnreachable, match="the lock of dev cannot be taken: "), store.lock("dev", "me"):
        pass


def test_reading_a_duckdb_file_imports_neither_pandas_nor_pyarrow(tmp_path: Path) -> None:
    where = ("duckdb:///state.duckdb", tmp_path)
    script = """
    move(store, "j1", [binding("a")])
    with store.read_consistently():
        store.read_environments(); store.read_refs("dev"); store.read_bindings(["x"]); store.read_freshness("dev")
    say(sorted({"pandas", "pyarrow", "numpy", "pyiceberg", "sqlglot", "psycopg"} & set(sys.modules)))
    """
    assert start(where, script, "me").communicate(timeout=30)[0].strip() == "[]"


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


def read_failure(url: str, root: Path) -> tuple[SqbError, str]:
    """How opening a state fails, and everything that --debug would show of it."""
    began = time.monotonic()
    with pytest.raises(SqbError) as caught:
        open_store(url, SCOPE, root).read_environments()
    assert time.monotonic() - began < 8
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + str(caught.value.hint)
    assert PASSWORD not in shown and "s3cr3t" not in shown and "wr0ng" not in shown
    return caught.value, shown


def test_a_database_that_was_not_set_up(postgres: Server, tmp_path: Path) -> None:
    name = postgres.new_database()
    error, _ = read_failure(postgres.url(name), tmp_path)
    assert isinstance(error, StateNotReady) and error.hint == "run `sqb state init` once"
    where = f"PostgreSQL at 127.0.0.1:{postgres.port}, database {name}"
    assert error.message == f"{where} has not been set up for virtual environments"


def test_a_server_that_cannot_be_reached_is_named(postgres: Server, tmp_path: Path) -> None:
    error, _ = read_failure("postgresql://anna:s3cr3t@127.0.0.1:1/shop", tmp_path)
    assert isinstance(error, StateUnreachable)
    assert "PostgreSQL at 127.0.0.1:1, database shop cannot be reached: Connection refused" in error.message
    error, _ = read_failure(postgres.url(password="wr0ng"), tmp_path)
    assert error.message.endswith('cannot be reached: password authentication failed for user "postgres"')
    assert error.hint is not None and "PGPASSWORD" in error.hint
    error, _ = read_failure(postgres.url("nothing"), tmp_path)
    assert error.message.endswith('cannot be reached: database "nothing" does not exist')
    assert error.hint == "create the database, then run `sqb state init`"
    error, _ = read_failure("postgresql://anna:s3cr3t@no-such-host.invalid/shop?connect_timeout=2", tmp_path)
    assert "no-such-host.invalid" in error.message


def test_addresses_that_nobody_understands_are_not_repeated(tmp_path: Path) -> None:
    for url in ("postgresql://anna:s3cr3t@host:port/shop", "mysql://anna:s3cr3t@host/shop"):
        error, _ = read_failure(url, tmp_path)
        assert isinstance(error, CallError)
    # libpq repeats names of settings that it does not know, and nothing else.
    error, _ = read_failure("postgresql://anna:s3cr3t@127.0.0.1:1/shop?nonsense=1", tmp_path)
    assert isinstance(error, StateUnreachable) and "nonsense" in error.message


def test_a_user_without_permission_is_told_what_is_missing(postgres: Server, tmp_path: Path) -> None:
    name = postgres.new_database()
    owner = open_store(postgres.url(name), SCOPE, tmp_path)
    role = f"guest_{name}"
    postgres.run(f"CREATE ROLE {role} LOGIN PASSWORD 's3cr3t'")
    guest = postgres.url(name, role, "s3cr3t")
    with pytest.raises(StateUnreachable, match=f"is not for this user: permission denied for database {name}"):
        open_store(guest, SCOPE, tmp_path).prepare()
    owner.prepare()
    error, _ = read_failure(guest, tmp_path)
    assert error.message.endswith("is not for this user: permission denied for schema sqb_state")
    assert error.hint is not None and "USAGE on schema sqb_state" in error.hint
    postgres.run(f"GRANT USAGE ON SCHEMA sqb_state TO {role}", database=name)
    error, _ = read_failure(guest, tmp_path)
    assert error.message.endswith("is not for this user: permission denied for table meta")
    postgres.run(f"GRANT ALL ON ALL TABLES IN SCHEMA sqb_state TO {role}", database=name)
    # Whoever may not end the session of another takes the lock all the same.
    with owner.lock("dev", "anna") as old, open_store(guest, SCOPE, tmp_path).lock("dev", "guest", True) as new:
        open_store(guest, SCOPE, tmp_path).set_environment(environment(), new)
        with pytest.raises(LockLost, match="taken over by guest"):
            owner.set_environment(environment(), old)


def test_the_schema_of_the_tables_can_be_chosen(postgres: Server, tmp_path: Path) -> None:
    url = f"{postgres.url(postgres.new_database())}?schema=team_a"
    store = open_store(url, SCOPE, tmp_path)
    store.prepare()
    move(store, "j1", [A])
    other = open_store(url.replace("team_a", "team_b"), SCOPE, tmp_path)
    other.prepare()
    assert other.read_environments() == {} and set(store.read_environments()) == {"dev"}


def test_a_connection_that_was_cut_is_made_again(postgres: Server, tmp_path: Path) -> None:
    name = postgres.new_database()
    store = open_store(postgres.url(name), SCOPE, tmp_path)
    store.prepare()
    cut = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}' AND pid <> pg_backend_pid()"
    with store.lock("dev", "anna") as token:
        postgres.run(cut)
        with pytest.raises(StateUnreachable, match="cannot be reached: terminating connection"):
            store.set_environment(environment(), token)
        # Nobody has taken the lock meanwhile, so it is still worth something.
        store.set_environment(environment(), token)
        assert store.read_locks() == {}
    with store.lock("dev", "ben"):
        assert set(store.read_environments()) == {"dev"}
